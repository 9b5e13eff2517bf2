"""What reading a table of PostgreSQL costs at a snapshot, and exactly, against Spark's own JDBC reader.

Both read all columns of the same table in the same partitions and fetch sizes, and throw the rows away. Spark's own
reader gives each partition another snapshot, and shifts a ``timestamp`` by the zone of the JVM. All take turns in one
Spark session. The server is one on this machine, from Debian's package, unless ``--url`` names a database that may be
written to. The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import comparison
import psycopg
from comparison import compare, heading, report
from one_session import open_runtime, start_spark

from rivet_dagster import Joint
from rivet_dagster.catalogs.capabilities.sources import HasSnapshots
from rivet_dagster.execution.runtime import Runtime

HERE = Path(__file__).resolve().parent
PARTITIONS = 8
FETCHED = 5_000
SNAPSHOT, SPARK = "at a snapshot", "Spark's own reader"
TABLE = "rivet_benchmark"
COLUMNS = """
id bigint PRIMARY KEY, customer int NOT NULL, state text, amount numeric(12, 2), ordered date, changed timestamptz,
paid boolean, weight double precision
"""
ROWS = """
SELECT n, n % 100000, CASE n % 4 WHEN 0 THEN 'new' WHEN 1 THEN 'paid' WHEN 2 THEN 'sent' END, n % 1000000 / 100.0,
DATE '2020-01-01' + (n % 1500)::int, timestamptz '2020-01-01' + n * interval '1 second', n % 3 = 0, n / 7.0
FROM generate_series(1, {rows}) n
"""


def main() -> None:
    options = comparison.arguments(__doc__ or "", rounds=5)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="databases-", dir=HERE))
        database = database_of_tests(stack)
        catalog = {"type": "jdbc", "connections": PARTITIONS + 1, **database}
        make_table(database, options.rows)
        source = Joint(name="orders", type="source", catalog="shop", table=TABLE)
        reader = Joint(name="read", type="sql", sql="SELECT * FROM orders", catalog="results")
        runtime = open_runtime(Path(folder), [source, reader], {"shop": catalog})
        spark = start_spark(runtime)
        print(heading(spark, options), flush=True)
        contenders = {
            SNAPSHOT: lambda _: at_a_snapshot(runtime),
            SPARK: lambda _: by_spark(spark, database, options.rows),
        }
        runs = compare(spark, options, Path(folder), contenders)
        print(report(runs, [(SNAPSHOT, SPARK)], {(SNAPSHOT, SPARK): 1.05}))
        spark.stop()


def database_of_tests(stack: ExitStack) -> dict[str, str]:
    """Return the options of a database of a server that ends with the benchmark."""
    sys.path.append(str(HERE.parent / "tests"))
    from support.postgres import postgres_server

    found = stack.enter_context(postgres_server()).database()
    return {"url": found.jdbc, "user": found.user, "password": found.password}


def make_table(database: dict[str, str], rows: int) -> None:
    address = database["url"].removeprefix("jdbc:")
    with psycopg.connect(address, user=database["user"], password=database["password"], autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(f"CREATE TABLE {TABLE} ({COLUMNS})")
        connection.execute(f"INSERT INTO {TABLE} {ROWS.format(rows=rows)}")
        connection.execute(f"VACUUM ANALYZE {TABLE}")


def at_a_snapshot(runtime: Runtime) -> None:
    catalog = runtime.catalog("shop")
    assert isinstance(catalog, HasSnapshots)
    snapshot = catalog.snapshot(1)
    with runtime.default_engine.session() as session:
        own = {"partition_by": "id", "partitions": PARTITIONS, "fetch_size": FETCHED}
        throw_away(session.load(snapshot.relation(TABLE, own)))
    snapshot.close()


def by_spark(spark: Any, database: dict[str, str], rows: int) -> None:
    properties = {
        "user": database["user"],
        "password": database["password"],
        "driver": "org.postgresql.Driver",
        "fetchsize": str(FETCHED),
    }
    throw_away(spark.read.jdbc(database["url"], TABLE, "id", 1, rows, PARTITIONS, properties=properties))


def throw_away(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    main()
