"""Tables of Iceberg that somebody else has made in a catalog of a server or a database, taken over."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField
from support.adoption import reading
from support.iceberg import KINDS
from support.iceberg_runs import NAMESPACE, TABLE, Work, lake, run, run_killed_before_a_step
from support.killing import PROCESSES, ended, start
from support.tables import refused

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.model.storage import CURRENT, OLDER
from rivet_dagster.model.write_plan import Append, ReplacePartitions

NAME = (NAMESPACE, TABLE)
PROPERTIES = {"owner": "dbt", "team": "sales", "write.parquet.compression-codec": "gzip"}
ELSEWHERE = ["sqlite", *(kind for kind in KINDS if kind not in ("hadoop", "sqlite"))]
"""The first one needs no server."""


@pytest.fixture
def place(kind, iceberg_options, tmp_path):
    """Return a catalog with a partitioned and sorted table of another tool, as we and as others open it."""
    options = iceberg_options(kind)
    plain = connect_catalog("lake", options, tmp_path)  # a database has several catalogs, by their names
    plain.create_namespace_if_not_exists(NAMESPACE)
    table = plain.create_table(
        NAME,
        Schema(NestedField(1, "id", LongType()), NestedField(2, "net", LongType())),
        partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "net")),
        sort_order=SortOrder(SortField(1, IdentityTransform())),
        properties=PROPERTIES,
    )
    for number in (1, 2):
        table.append(pa.table({"id": [number], "net": [number * 10]}))
    return SimpleNamespace(kind=kind, root=tmp_path, options=options, plain=plain, catalog=lake(options, tmp_path))


def identity(place) -> tuple[object, ...]:
    """Return what must never change: the table's id, its location, and what others set."""
    table = place.plain.load_table(NAME)
    others = {name: value for name, value in table.properties.items() if not name.startswith(("rivet.", "nessie."))}
    return table.metadata.table_uuid, table.location(), table.spec(), table.sort_order(), table.schema(), others


def ids(place) -> list[int]:
    return sorted(place.plain.load_table(NAME).scan().to_arrow()["id"].to_pylist())


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_it_is_taken_over_given_up_and_written_to(place):
    before, snapshot = identity(place), place.plain.load_table(NAME).metadata.current_snapshot_id
    assert PROPERTIES.items() <= before[-1].items()
    assert refused(place.catalog.begin, TABLE).code == "RVT-404"
    existing = place.catalog.existing(TABLE)
    assert (existing.statistics.rows, existing.layout["partitions"]) == (2, "net")
    for _ in range(2):
        adopted = place.catalog.adopt(TABLE)
        assert (adopted.version, adopted.identity, adopted.statistics.rows) == (str(snapshot), "adopted", 2)
        assert (place.catalog.existing(TABLE), place.catalog.adopt(TABLE)) == (None, adopted)
        assert (identity(place), ids(place)) == (before, [1, 2])
        assert place.catalog.give_up(TABLE)
        assert (identity(place), ids(place), place.catalog.give_up(TABLE)) == (before, [1, 2], False)
        assert refused(place.catalog.begin, TABLE).code == "RVT-404"
    place.catalog.adopt(TABLE)
    run(place.catalog, Work([5], 50, Append()), place.root)
    assert (identity(place), ids(place)) == (before, [1, 2, 5])
    current, first, second = place.catalog.versions(TABLE)
    assert (current.state, current.rows) == (CURRENT, 3)
    assert (first.state, first.identity, second.identity) == (OLDER, "adopted", "")
    assert refused(place.catalog.give_up, TABLE).code == "RVT-404"
    with place.catalog.restage(TABLE, first.name) as transaction:
        transaction.commit("rollback")
    assert (identity(place), ids(place)) == (before, [1, 2])


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_a_kill_leaves_the_table_as_it_was_or_taken_over(place):
    """Before each step, beside a reader; the same command does what is left to do."""
    before = identity(place)
    for work in ("adopt", "give_up"):
        steps, code = killed(place, work, -1)
        assert code == 0
        assert steps
        for at in range(len(steps)):
            (place.catalog.give_up if work == "adopt" else place.catalog.adopt)(TABLE)
            with reading(lambda: ids(place)) as seen:
                assert killed(place, work, at)[1] == -signal.SIGKILL
            assert all(rows == [1, 2] for rows in seen), (steps[at], seen)
            assert (place.catalog.existing(TABLE) is not None) is (work == "adopt"), steps[at]
            assert identity(place) == before
            getattr(place.catalog, work)(TABLE)
            assert (place.catalog.existing(TABLE) is None) is (work == "adopt")
    assert place.catalog.adopt(TABLE).statistics.rows == 2


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["rest", "nessie"])
def test_a_table_that_spark_has_made_is_taken_over(kind, iceberg_options, iceberg_session, tmp_path):
    """A session of Spark that began before it reads the same rows afterwards."""
    options = iceberg_options(kind)
    session, name = iceberg_session(lake=options), f"lake.{NAMESPACE}.{TABLE}"
    spark = session.spark
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{NAMESPACE}")
    made = "SELECT id, DATE'2024-01-01' + CAST(id AS INT) AS day FROM range(3)"
    spark.sql(f"CREATE TABLE {name} USING iceberg PARTITIONED BY (day) TBLPROPERTIES ('team' = 'sales') AS {made}")

    def seen():
        rows = sorted(row.asDict()["id"] for row in spark.table(name).collect())
        properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
        return rows, spark.sql(f"DESCRIBE {name}").collect(), properties["team"]

    before, catalog = seen(), lake(options, tmp_path)
    existing = catalog.existing(TABLE)
    assert (existing.statistics.rows, existing.layout["partitions"]) == (3, "day")
    assert existing.statistics.columns == (("id", "bigint"), ("day", "date"))
    assert catalog.adopt(TABLE).statistics.rows == 3
    assert seen() == before
    with catalog.begin(TABLE, session) as transaction:
        transaction.write(ReplacePartitions(column="day"), session.query("SELECT 7L AS id, DATE'2024-01-02' AS day"))
        transaction.commit("run/orders")
    spark.sql(f"REFRESH TABLE {name}")
    assert seen() == ([0, 2, 7], *before[1:])


def killed(place, work: str, at: int) -> tuple[list[str], int | None]:
    """Kill a work on the table before its step number ``at``; return its steps and its exit code."""
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(run_killed_before_a_step, child, place.options, place.root, work, at)
    child.close()
    steps = []
    while True:
        try:
            steps.append(test.recv())
        except EOFError:
            return steps, ended(process)
