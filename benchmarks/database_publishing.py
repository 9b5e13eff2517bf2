"""What publishing a table in PostgreSQL costs, gated, against the same statements by hand.

A ``replace`` of all rows behind a gate of four checks, against staging the same rows by COPY from Spark's tasks, DELETE
and INSERT by hand, and against staging them by Spark's own JDBC writer; one by ``replace_by: swap``, against a table
that is filled and renamed by hand; and a ``merge`` of one row in a hundred, half of them new, against staging them and
MERGE by hand. The tables have a primary key. All take turns in one Spark session; whoever writes by hand checks
nothing, and keeps no record. The server is one on this machine, from Debian's package.
The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import io
import tempfile
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import comparison
import psycopg
from comparison import compare, heading, report
from databases import database_of_tests
from one_session import open_runtime, start_spark

from rivet_dagster import Joint
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime

HERE = Path(__file__).resolve().parent
REPLACE, REPLACE_BY_HAND, BY_JDBC = "gated replace", "COPY, DELETE and INSERT by hand", "Spark's JDBC writer by hand"
SWAP, SWAP_BY_HAND = "gated replace by swap", "COPY and swap by hand"
MERGE, MERGE_BY_HAND = "merge of 1%", "COPY and MERGE by hand"
COLUMNS = (
    "id bigint PRIMARY KEY, customer bigint, state text, amount numeric(12,2), ordered date, changed timestamptz, "
    "paid boolean, weight double precision"
)
NAMES = [column.split(" ")[0] for column in COLUMNS.split(", ")]
STAGED = f"CREATE UNLOGGED TABLE staged ({COLUMNS.replace(' PRIMARY KEY', '')})"
GENERATED = """
SELECT id, id % 100000 AS customer, element_at(array('new', 'paid', 'sent'), CAST(id % 3 AS INT) + 1) AS state,
  CAST(id % 1000000 / 100 AS DECIMAL(12, 2)) AS amount, DATE '2020-01-01' + CAST(id % 1500 AS INT) AS ordered,
  timestamp_micros(1577836800000000 + id * 1000000) AS changed, id % 3 = 0 AS paid, {weight} AS weight
FROM range({first}, {last}, 1, 8)
"""
CHECKS = [
    {"type": "not_null", "columns": ["id", "customer"]},
    {"type": "unique", "columns": ["id"]},
    {"type": "row_count", "min": 1},
    {"type": "accepted_values", "column": "state", "values": ["new", "paid", "sent"]},
]


def main() -> None:
    options = comparison.arguments(__doc__ or "", rounds=5)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="publishing-", dir=HERE))
        database = database_of_tests(stack)
        catalog = {"type": "jdbc", "connections": 3, **database}
        rows, changed = options.rows, options.rows // 100
        whole = GENERATED.format(weight="id / 7.0D", first=0, last=rows)
        part = GENERATED.format(weight="rand(3)", first=rows - changed // 2, last=rows + changed // 2)
        merge = {"mode": "merge", "key_columns": ["id"]}
        joints = [
            Joint(name="replaced", type="sql", sql=whole, catalog="shop", quality={"assertions": CHECKS}),
            Joint(
                name="swapped",
                type="sql",
                sql=whole,
                catalog="shop",
                quality={"assertions": CHECKS},
                options={"replace_by": "swap"},
            ),
            Joint(name="merged", type="sql", sql=part, catalog="shop", write_strategy=merge, adopt=True),
        ]
        runtime = open_runtime(Path(folder), joints, {"shop": catalog})
        spark = start_spark(runtime)
        print(heading(spark, options), flush=True)
        for table in ("replaced", "swapped", "merged"):
            make_table(database, table, rows)
            make_table(database, f"{table}_by_hand", rows)
        make_table(database, "replaced_by_jdbc", rows)
        hand = ByHand(spark, database)
        merges = {
            MERGE: lambda _: run(runtime, "merged"),
            MERGE_BY_HAND: lambda _: hand.merge(part, "merged_by_hand"),
        }
        replacements = {
            REPLACE: lambda _: run(runtime, "replaced"),
            REPLACE_BY_HAND: lambda _: hand.replace(whole, "replaced_by_hand"),
            BY_JDBC: lambda _: hand.replace_by_jdbc(whole, "replaced_by_jdbc"),
        }
        # One after the other: a table that was just replaced keeps the server busy for a while.
        few = compare(spark, options, Path(folder), merges)
        print(report(few, [(MERGE, MERGE_BY_HAND)], {(MERGE, MERGE_BY_HAND): 1.1}), flush=True)
        many = compare(spark, options, Path(folder), replacements)
        pairs = [(REPLACE, REPLACE_BY_HAND), (REPLACE, BY_JDBC)]
        print(report(many, pairs, {(REPLACE, REPLACE_BY_HAND): 1.15}), flush=True)
        swaps = {
            SWAP: lambda _: run(runtime, "swapped"),
            SWAP_BY_HAND: lambda _: hand.swap(whole, "swapped_by_hand"),
        }
        swapped = compare(spark, options, Path(folder), swaps)
        print(report(swapped, [(SWAP, SWAP_BY_HAND)], {(SWAP, SWAP_BY_HAND): 1.15}))
        spark.stop()


def make_table(database: dict[str, str], name: str, rows: int) -> None:
    with connection_to(database) as connection:
        connection.execute(f"CREATE TABLE {name} ({COLUMNS})")
        connection.execute(
            f"INSERT INTO {name} SELECT n, n % 100000, 'new', n % 1000000 / 100.0, DATE '2020-01-01', now(), true, 1 "
            f"FROM generate_series(0, {rows - 1}) n"
        )
    with connection_to(database) as connection:
        connection.execute(f"VACUUM ANALYZE {name}")


def connection_to(database: dict[str, str]) -> psycopg.Connection[Any]:
    address = database["url"].removeprefix("jdbc:")
    return psycopg.connect(address, user=database["user"], password=database["password"], autocommit=True)


def run(runtime: Runtime, name: str) -> None:
    if name != "merged":
        runtime.catalog("shop").adopt(name)  # type: ignore[attr-defined]
    result = run_group(runtime, name, runtime.assembly.group(name).joints, f"{uuid.uuid4()}/{name}")
    assert result.published is not None, result.checks


class ByHand:
    """The same writes by statements that a person would write."""

    def __init__(self, spark: Any, database: dict[str, str]) -> None:
        self.spark = spark
        self.database = database

    def replace(self, query: str, table: str) -> None:
        self._stage(query)
        with connection_to(self.database) as connection, connection.transaction():
            connection.execute(f"DELETE FROM {table}")
            connection.execute(f"INSERT INTO {table} SELECT * FROM staged")

    def replace_by_jdbc(self, query: str, table: str) -> None:
        self._make_staged()
        properties = {
            "user": self.database["user"],
            "password": self.database["password"],
            "driver": "org.postgresql.Driver",
            "batchsize": "10000",
            "reWriteBatchedInserts": "true",
        }
        self.spark.sql(query).coalesce(2).write.jdbc(self.database["url"], "staged", "append", properties)
        with connection_to(self.database) as connection, connection.transaction():
            connection.execute(f"DELETE FROM {table}")
            connection.execute(f"INSERT INTO {table} SELECT * FROM staged")

    def merge(self, query: str, table: str) -> None:
        self._stage(query)
        pairs = ", ".join(f"{name} = s.{name}" for name in NAMES)
        with connection_to(self.database) as connection, connection.transaction():
            connection.execute(
                f"MERGE INTO {table} t USING staged s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {pairs} "
                f"WHEN NOT MATCHED THEN INSERT VALUES ({', '.join(f's.{name}' for name in NAMES)})"
            )

    def swap(self, query: str, table: str) -> None:
        self._stage(query, f"CREATE TABLE staged (LIKE {table} INCLUDING ALL)")
        with connection_to(self.database) as connection, connection.transaction():
            connection.execute(f"DROP TABLE {table}")
            connection.execute(f"ALTER TABLE staged RENAME TO {table}")

    def _make_staged(self, statement: str = STAGED) -> None:
        with connection_to(self.database) as connection:
            connection.execute("DROP TABLE IF EXISTS staged")
            connection.execute(statement)

    def _stage(self, query: str, statement: str = STAGED) -> None:
        self._make_staged(statement)
        database = self.database

        def copy(batches: Any) -> Any:
            import psycopg
            import pyarrow as pa
            from pyarrow import csv

            address = database["url"].removeprefix("jdbc:")
            with (
                psycopg.connect(address, user=database["user"], password=database["password"]) as connection,
                connection.cursor().copy("COPY staged FROM STDIN WITH (FORMAT csv)") as copy,
            ):
                for batch in batches:
                    text = io.BytesIO()
                    csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
                    copy.write(text.getvalue())
            yield pa.RecordBatch.from_pydict({"done": [1]})

        self.spark.sql(query).coalesce(2).mapInArrow(copy, "done bigint").collect()


if __name__ == "__main__":
    main()
