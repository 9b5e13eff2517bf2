"""The session's own catalog: Hive's, with its embedded metastore, in a Spark application of this module's own."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import date
from decimal import Decimal
from pathlib import Path
from threading import Event
from time import sleep

import pyarrow.parquet as pq
import pytest
from support.adoption import reading
from support.conformance import COMMITS, TESTS, only, with_one_plan
from support.folders import PROFILES, ProjectFolder, sink, source
from support.hive import HiveSpark, adopt_in_a_killed_process, database_of, publish, publish_in_a_killed_process
from support.torture import some

from rivet_dagster.catalogs.spark import SparkCatalog, adoption
from rivet_dagster.catalogs.versions.manifest import positions_as_json
from rivet_dagster.cli.main import main
from rivet_dagster.definitions.partitions import window
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.partitions import parse_partitions
from rivet_dagster.model.write_plan import Append, ReplaceAll
from rivet_dagster.testing.catalog import CatalogConformance
from rivet_dagster.testing.plan_cases import beginnings, columns
from rivet_dagster.testing.tables import TABLE


@pytest.fixture(scope="module")
def hive(engine, tmp_path_factory) -> Iterator[HiveSpark]:
    """Spark with Hive's catalog, in place of the one Spark of all tests, which starts again afterwards."""
    with HiveSpark.in_place_of(engine, tmp_path_factory.mktemp("hive")) as spark:
        yield spark


@pytest.fixture
def session(hive) -> Iterator[PySparkSession]:
    with hive.session() as session:
        yield session


CASES_OF_THE_METASTORE = [
    case
    for case in (*(first for first in beginnings.CASES if first.before is None and first.batch), *columns.CASES)
    if type(case.plan) in SparkCatalog.write_plans
]


HELD_BY_THE_METASTORE = (  # what its keeper decides, and the columns
    *COMMITS,
    "test_an_older_version_comes_back",
    "test_the_first_version_of_a_table_is_staged",
    "test_columns_without_null_take_null_later",
    "test_the_meaning_of_a_write_plan",
)


@pytest.mark.nightly
@with_one_plan
@only(HELD_BY_THE_METASTORE, TESTS)
class TestHive(CatalogConformance):
    """A database for each test, in the test's own folder.

    Of the row cases each plan's first batch, and those that change columns, which the metastore holds: the others
    depend on how files are rewritten alone, which is as in the filesystem catalog, and so do the other tests.
    ``make torture`` tries them all.
    """

    test_a_batch_that_does_not_fit_is_refused = None
    test_the_meaning_of_a_history = None

    @pytest.fixture(autouse=True)
    def spark(self, hive):
        self.hive = hive

    def new_catalog(self, folder: Path) -> SparkCatalog:
        return self.hive.catalog(folder)

    @pytest.mark.parametrize("case", some(CASES_OF_THE_METASTORE, 6), ids=lambda case: case.name)
    def test_the_meaning_of_a_write_plan(self, catalog, session, case):
        super().test_the_meaning_of_a_write_plan(catalog, session, case)


@pytest.fixture
def catalog(hive, tmp_path) -> SparkCatalog:
    hive.with_database(tmp_path)
    return hive.catalog(tmp_path)


@pytest.fixture
def rows(hive, tmp_path):
    """Return what a plain session sees, which began before the table was published."""
    plain = hive.one_session.spark.newSession()

    def read(table=TABLE):
        found = plain.sql(f"SELECT * FROM {database_of(tmp_path)}.{table}").collect()
        return sorted(tuple(row.asDict().items()) for row in found)

    return read


@pytest.fixture
def shop(hive, catalog, tmp_path):
    """Return a project that reads files and tables of Hive and publishes tables of Hive."""
    place = {"metastore": str(hive.place / "metastore"), "warehouse": str(hive.place / "warehouse")}
    profile = deepcopy(PROFILES)
    profile["default"]["catalogs"]["hive"] = {"type": "spark", "database": database_of(tmp_path), **place}
    profile["default"]["engines"][0]["catalogs"].append("hive")
    hive.one_session.spark.sql(f"CREATE TABLE {database_of(tmp_path)}.countries (code STRING, name STRING) USING orc")
    hive.one_session.spark.sql(f"INSERT INTO {database_of(tmp_path)}.countries VALUES ('de', 'Germany')")
    return ProjectFolder(
        tmp_path / "project",
        {
            "profiles.yaml": profile,
            "data/orders.csv": "id,country,net\n1,de,2.50\n2,fr,1.00\n",
            "sources/raw_orders.yaml": source("orders.csv", "id INT, country STRING, net DECIMAL(5, 2)"),
            "sources/countries.yaml": {"type": "source", "catalog": "hive", "table": "Countries"},
            "joints/orders.sql": "-- rivet:catalog: hive\n-- rivet:assert: expression(sql='net > 0')\n"
            "SELECT o.*, c.name FROM raw_orders o LEFT JOIN countries c ON c.code = o.country",
        },
    )


def location(hive: HiveSpark, folder: Path, table: str = TABLE) -> Path:
    """Return the folder that the metastore names."""
    described = hive.one_session.spark.sql(f"DESCRIBE EXTENDED {database_of(folder)}.{table}").collect()
    return Path(next(row.data_type for row in described if row.col_name == "Location").removeprefix("file:"))


@pytest.mark.nightly
def test_a_project_is_run_and_a_failed_gate_publishes_nothing(shop, hive, rows, tmp_path, capsys):
    assert main(["-p", str(shop.root), "run", "--format", "json"]) == 0
    first = [
        (("id", 1), ("country", "de"), ("net", Decimal("2.50")), ("name", "Germany")),
        (("id", 2), ("country", "fr"), ("net", Decimal("1.00")), ("name", None)),
    ]
    assert rows() == first
    folder = location(hive, tmp_path)
    assert pq.read_table(folder).sort_by("id").to_pylist() == [dict(row) for row in first]

    shop.write({"data/orders.csv": "id,country,net\n3,de,-1.00\n"})
    assert main(["-p", str(shop.root), "run", "--format", "json"]) == 4
    assert (rows(), location(hive, tmp_path)) == (first, folder)
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]

    # Other columns, which the same plain session sees together with the rows.
    shop.write({
        "data/orders.csv": "id,country,net\n3,de,1.00\n",
        "joints/orders.sql": "-- rivet:catalog: hive\n"
        "SELECT named.code AS name, id FROM raw_orders JOIN countries named ON country = code",
    })  # fmt: skip
    assert main(["-p", str(shop.root), "run", "--format", "json"]) == 0
    assert rows() == [(("name", "de"), ("id", 3))]

    published = shop.runtime.catalog_within_reach("hive").current("orders")
    known = json.loads(json.dumps(positions_as_json(published.inputs)))
    assert {name: position["kind"] for name, position in known.items()} == {"raw_orders": "data", "countries": "data"}
    capsys.readouterr()
    assert main(["-p", str(shop.root), "versions", "rollback", "orders"]) == 0
    assert rows() == first


@pytest.mark.nightly
def test_partitions_are_replaced_and_appended(shop, rows):
    daily = {"type": "daily", "column": "day", "start": "2024-01-01"}

    def run(key: str, n: int, mode: str) -> None:
        shop.write({
            "joints/daily.sql": f"-- rivet:partitions: {daily}\nSELECT DATE'{key}' AS day, {n} AS n",
            "sinks/days.yaml": sink("days", "daily") | {"catalog": "hive", "partitions": daily, "write_strategy": mode},
        })  # fmt: skip
        shop.run("days", window=window(parse_partitions(daily), [key]))

    run("2024-01-01", 1, "replace")
    run("2024-01-02", 2, "replace")
    run("2024-01-01", 3, "replace")
    first, second = (("day", date(2024, 1, 1)), ("n", 3)), (("day", date(2024, 1, 2)), ("n", 2))
    assert rows("days") == [first, second]
    run("2024-01-02", 4, "append")
    assert rows("days") == [first, second, (second[0], ("n", 4))]


@pytest.mark.nightly
def test_plain_readers_see_one_version_wholly_while_columns_change(hive, session, catalog, rows):
    catalog.keep = 20
    versions = [
        [(("id", n), ("a", n)) for _ in range(3)] if n % 2 else [(("b", str(n)), ("id", n)) for _ in range(3)]
        for n in range(6)
    ]
    texts = [
        f"SELECT {n} AS id, {n} AS a FROM range(3)" if n % 2 else f"SELECT '{n}' AS b, {n} AS id FROM range(3)"
        for n in range(6)
    ]
    publish(catalog, session, texts[0], "0")
    seen, ended = [], Event()

    def look() -> None:
        while not ended.is_set():
            seen.append(rows())

    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(look)
        for number, text in enumerate(texts[1:], start=1):
            publish(catalog, session, text, str(number))
            while versions[number] not in seen and not reading.done():
                sleep(0.01)
        ended.set()
        reading.result()
    numbers = [versions.index(read) for read in seen]
    assert numbers == sorted(numbers)


@pytest.mark.nightly(but=1)
def test_properties_that_others_gave_a_table_stay_while_its_columns_change(hive, session, catalog, rows, tmp_path):
    name = f"{database_of(tmp_path)}.{TABLE}"
    publish(catalog, session, "SELECT 1 AS id", "one")
    session.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('team' = 'sales')")
    publish(catalog, session, "SELECT 'b' AS name, 2 AS id", "two")
    assert rows() == [(("name", "b"), ("id", 2))]
    assert [row.value for row in session.spark.sql(f"SHOW TBLPROPERTIES {name} ('team')").collect()] == ["sales"]


def test_of_two_writers_that_begin_a_table_one_publishes(hive, session, tmp_path, rows):
    first, second = hive.catalog(tmp_path), hive.catalog(tmp_path)
    with first.begin(TABLE, session) as slow:
        slow.write(ReplaceAll(), session.query("SELECT 1 AS id"))
        publish(second, session, "SELECT 2 AS id", "fast")
        with pytest.raises(RivetError, match="RVT-405"):
            slow.commit("slow")
    assert rows() == [(("id", 2),)]


@pytest.mark.nightly
def test_a_killed_run_has_published_all_or_nothing(hive, session, catalog, rows, tmp_path):
    def kill(text: str, moment: str) -> None:
        publish_in_a_killed_process(hive, tmp_path, text, moment)

    kill("SELECT 1 AS id", "before")
    assert catalog.current(TABLE) is None
    publish(catalog, session, "SELECT 1 AS id", "one")
    kill("SELECT 'b' AS name, 2 AS id", "before")
    assert rows() == [(("id", 1),)]
    assert catalog.published_by(TABLE, "killed") is None
    kill("SELECT 'b' AS name, 2 AS id", "after")
    assert rows() == [(("name", "b"), ("id", 2))]
    assert catalog.published_by(TABLE, "killed") == catalog.current(TABLE)

    home = location(hive, tmp_path).parent
    assert len([path for path in home.iterdir() if path.is_dir()]) == 4
    for alive in home.glob("*.alive"):
        os.utime(alive, (0, 0))
    publish(catalog, session, "SELECT 3 AS id", "three")
    left = sorted(path.name for path in home.iterdir() if path.is_dir())
    assert left == sorted(version.name for version in catalog.versions(TABLE))
    assert len(left) == 2


def test_what_is_not_ours_stays(hive, session, catalog, rows, tmp_path):
    spark, database = hive.one_session.spark, database_of(tmp_path)
    spark.sql(f"CREATE TABLE {database}.theirs STORED AS PARQUET AS SELECT 1 AS id")
    spark.sql(f"CREATE VIEW {database}.seen AS SELECT 1 AS id")
    for table in ("theirs", "seen"):
        assert catalog.current(table) is None
        with pytest.raises(RivetError, match=r"RVT-404 .* which was not published here"):
            catalog.begin(table, session)
        assert rows(table) == [(("id", 1),)]
        assert [(field.name, field.type) for field in catalog.columns(table, {})] == [("id", "int")]
    before = catalog.data_version("theirs", {})
    spark.sql(f"INSERT INTO {database}.theirs VALUES (2)")
    assert catalog.data_version("theirs", {}) != before
    with pytest.raises(RivetError, match=r"RVT-403 .* is a view"):
        catalog.data_version("seen", {})
    with pytest.raises(RivetError, match="RVT-403 there is no table or view"):
        catalog.relation("nothing", {})


def test_what_hive_cannot_have_is_refused(hive, session, catalog):
    with pytest.raises(RivetError, match=r"RVT-404 .*'at' \(timestamp_ntz\)"):
        publish(catalog, session, "SELECT array(TIMESTAMP_NTZ'2024-01-01 00:00:00') AS at, 1 AS id", "one")
    assert catalog.current(TABLE) is None
    with pytest.raises(RivetError, match="RVT-403 there is no database 'nowhere'"):
        catalog.begin("nowhere.orders", session)


TWO = "SELECT id, CAST(id AS STRING) AS name FROM range(1, 3)"


@pytest.fixture
def made(hive, catalog, tmp_path):
    """Make a table with plain Spark's SQL, as dbt does."""

    def make(ddl: str, query: str = TWO, table: str = TABLE) -> Path:
        hive.one_session.spark.sql(f"CREATE TABLE {database_of(tmp_path)}.{table} {ddl} AS {query}")
        return location(hive, tmp_path, table)

    return make


def properties(hive, folder: Path) -> dict[str, str]:
    """Return the properties that others gave the table, its owner, and when and by what it was created."""
    name, spark = f"{database_of(folder)}.{TABLE}", hive.one_session.spark
    found = spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    given = {row.key: row.value for row in found if not row.key.startswith(("transient", "spark.sql.statistics"))}
    told = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}
    return given | {title: told[title] for title in ("Owner", "Created Time", "Created By", "Type", "Provider")}


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("ddl", ["USING parquet", "STORED AS PARQUET", "USING parquet LOCATION '{}'"])
def test_a_table_of_another_tool_is_taken_over(hive, session, catalog, rows, made, tmp_path, ddl):
    folder = made(f"{ddl} TBLPROPERTIES ('team' = 'sales')".replace("{}", f"{tmp_path}/other place%20"))
    before, kept = rows(), (sorted(os.listdir(folder)), properties(hive, tmp_path))
    with pytest.raises(RivetError, match="rivet-dagster adopt JOINT") as caught:
        publish(catalog, session, TWO, "one")
    assert caught.value.code == "RVT-404"
    existing = catalog.existing(TABLE)
    assert (existing.statistics.rows, existing.statistics.columns) == (2, (("id", "bigint"), ("name", "string")))
    assert (existing.layout["format"], existing.layout["partitions"]) == ("parquet", "none")

    adopted = catalog.adopt(TABLE)
    assert (adopted.identity, adopted.statistics.rows) == ("adopted", 2)
    assert (rows(), sorted(os.listdir(folder)), properties(hive, tmp_path)) == (before, *kept)
    there = location(hive, tmp_path)
    assert there.name == adopted.version
    assert {path.stat().st_nlink for path in there.iterdir()} == {2}  # no file was copied
    again = hive.catalog(tmp_path)
    assert (again.existing(TABLE), again.adopt(TABLE)) == (None, adopted)
    assert again.give_up(TABLE)
    assert (rows(), location(hive, tmp_path), again.current(TABLE)) == (before, folder, None)
    assert not there.exists()
    assert not again.give_up(TABLE)

    catalog.adopt(TABLE)
    with catalog.begin(TABLE, session) as transaction:
        transaction.write(Append(), session.query("SELECT 7L AS id, 'x' AS name"))
        published = transaction.commit("two")
    # A session keeps the list of files of a table that was created with USING.
    fresh = hive.one_session.spark.newSession().table(f"{database_of(tmp_path)}.{TABLE}")
    assert (sorted(row.id for row in fresh.collect()), published.rows_before) == ([1, 2, 7], 2)
    assert properties(hive, tmp_path) == kept[1]
    with pytest.raises(RivetError, match=r"published from here \(two\)"):
        catalog.give_up(TABLE)
    publish(catalog, session, "SELECT DATE '2026-01-01' AS day", "three")
    fresh = hive.one_session.spark.newSession().table(f"{database_of(tmp_path)}.{TABLE}")
    assert [row.asDict() for row in fresh.collect()] == [{"day": date(2026, 1, 1)}]
    assert properties(hive, tmp_path) == kept[1]


IN_BUCKETS = (
    "USING parquet CLUSTERED BY (id) SORTED BY (name) INTO 3 BUCKETS",
    "CLUSTERED BY (id) INTO 3 BUCKETS STORED AS PARQUET",
)


def buckets(hive, folder: Path) -> dict[str, str]:
    """Return what Spark knows of the buckets of the table, without columns of which it keeps a cache."""
    told = hive.one_session.spark.newSession().sql(f"DESCRIBE EXTENDED {database_of(folder)}.{TABLE}").collect()
    return {
        row.col_name: row.data_type for row in told if row.col_name in ("Num Buckets", "Bucket Columns", "Sort Columns")
    }


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("ddl", IN_BUCKETS)
def test_a_table_in_buckets_is_taken_over_without_them(hive, session, catalog, rows, tmp_path, ddl):
    """And has them again once it is given up: Spark counts by them without an exchange of rows."""
    name, spark = f"{database_of(tmp_path)}.{TABLE}", hive.one_session.spark
    spark.sql(f"CREATE TABLE {name} (id BIGINT, name STRING) {ddl} TBLPROPERTIES ('team' = 'sales')")
    spark.sql(f"INSERT INTO {name} {TWO}")

    def plan() -> str:
        counted = spark.newSession().sql(f"EXPLAIN EXTENDED SELECT id, count(*) FROM {name} GROUP BY id")
        return counted.collect()[0][0]

    before, kept, divided, planned = rows(), properties(hive, tmp_path), buckets(hive, tmp_path), plan()
    folder = location(hive, tmp_path)
    assert (divided["Num Buckets"], divided["Bucket Columns"]) == ("3", "[`id`]")
    assert ("SelectedBucketsCount: 3 out of 3" in planned) is (ddl == IN_BUCKETS[0])
    assert catalog.existing(TABLE).layout["buckets"] == "3 by id, which the table has no more then"
    assert catalog.adopt(TABLE).statistics.rows == 2
    assert (rows(), properties(hive, tmp_path), buckets(hive, tmp_path)) == (before, kept, {})
    assert "Bucket" not in plan()
    assert catalog.give_up(TABLE)
    assert (rows(), properties(hive, tmp_path), buckets(hive, tmp_path)) == (before, kept, divided)
    assert (location(hive, tmp_path), "SelectedBucketsCount" in plan()) == (folder, "SelectedBucketsCount" in planned)

    adopted = catalog.adopt(TABLE)
    assert hive.catalog(tmp_path).adopt(TABLE) == adopted
    with catalog.begin(TABLE, session) as transaction:
        transaction.write(Append(), session.query("SELECT 7L AS id, 'x' AS name"))
        transaction.commit("two")
    fresh = spark.newSession().table(name).groupBy("id").count().collect()
    assert (sorted(row.id for row in fresh), properties(hive, tmp_path)) == ([1, 2, 7], kept)


def test_what_others_write_meanwhile_or_later_is_not_lost(hive, catalog, made, tmp_path, monkeypatch):
    folder = made("USING parquet")
    table = f"{database_of(tmp_path)}.{TABLE}"
    share = adoption.share

    def share_late(path, to):
        monkeypatch.setattr(adoption, "share", share)
        hive.one_session.spark.sql(f"INSERT INTO {table} VALUES (3, 'c')")
        return share(path, to)

    monkeypatch.setattr(adoption, "share", share_late)
    with pytest.raises(RivetError, match="RVT-405"):
        catalog.adopt(TABLE)
    assert location(hive, tmp_path) == folder
    assert catalog.adopt(TABLE).statistics.rows == 3
    fresh = hive.one_session.spark.newSession()
    fresh.sql(f"INSERT INTO {table} VALUES (4, 'd')")
    with pytest.raises(RivetError, match="has 4 rows, and had 3 when it was taken over"):
        catalog.give_up(TABLE)
    assert location(hive, tmp_path) != folder
    assert fresh.sql(f"SELECT count(*) FROM {table}").collect()[0][0] == 4


def test_a_table_without_rows_is_taken_over(hive, session, catalog, rows, tmp_path):
    hive.one_session.spark.sql(f"CREATE TABLE {database_of(tmp_path)}.{TABLE} (id INT, at TIMESTAMP) USING parquet")
    assert catalog.existing(TABLE).statistics.columns == (("id", "int"), ("at", "timestamp"))
    assert catalog.adopt(TABLE).statistics.rows == 0
    assert rows() == []
    with catalog.begin(TABLE, session) as transaction:
        assert transaction.base.columns == (("id", "int"), ("at", "timestamp"))


def test_what_no_version_can_be_is_not_taken_over(hive, catalog, made, tmp_path):
    database = database_of(tmp_path)
    made("USING orc", table="a")
    made("USING parquet", table="d")
    for change in (
        f"CREATE VIEW {database}.e AS SELECT 1 AS id",
        f"ALTER TABLE {database}.d ADD COLUMNS (more INT)",
    ):
        hive.one_session.spark.sql(change)
    for table, why in {
        "a": "is of the format orc, not Parquet",
        "d": "has other columns than its files: more",
        "e": "is a view",
    }.items():
        before = None if table == "e" else location(hive, tmp_path, table)
        for call in (catalog.existing, catalog.adopt):
            with pytest.raises(RivetError, match=f"{table} cannot be taken over: it {why}") as caught:
                call(table)
            assert caught.value.code == "RVT-404"
        assert before is None or location(hive, tmp_path, table) == before
    assert (catalog.existing("nothing"), catalog.adopt("nothing")) == (None, None)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("step", "moment"),
    [
        ("share", "before"),
        ("write_manifest", "after"),
        ("set_location", "before"),
        ("set_location", "after"),
        ("set_buckets", "before"),
        ("set_buckets", "after"),
    ],
)
def test_a_kill_leaves_the_table_as_it_was_or_taken_over(hive, session, catalog, rows, made, tmp_path, step, moment):
    folder = made("USING parquet" if step != "set_buckets" else f"USING parquet {IN_BUCKETS[1].split(' STORED')[0]}")
    with reading(rows) as seen:
        adopt_in_a_killed_process(hive, tmp_path, step, moment)
    assert all([row[0][1] for row in found] == [1, 2] for found in seen), seen
    is_adopted = step.startswith("set_") and moment == "after"
    assert (catalog.current(TABLE) is not None, location(hive, tmp_path) != folder) == (is_adopted, is_adopted)
    adopted = catalog.adopt(TABLE)
    left = [path.name for path in location(hive, tmp_path).parent.iterdir() if path.is_dir()]
    assert (left, [row[0][1] for row in rows()]) == ([adopted.version], [1, 2])
