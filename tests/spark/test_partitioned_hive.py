"""Tables of Hive that are PARTITIONED BY: they are taken over with their partitions, and published to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import deepcopy
from datetime import date
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.adoption import reading
from support.folders import PROFILES, ProjectFolder, source
from support.hive import HiveSpark, adopt_in_a_killed_process, database_of, publish, publish_in_a_killed_process

from rivet_dagster.catalogs.spark import SparkCatalog, partitioned_adoption
from rivet_dagster.cli.main import main
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.write_plan import Append, ReplaceAll, ReplacePartitions
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


@pytest.fixture
def catalog(hive, tmp_path) -> SparkCatalog:
    hive.with_database(tmp_path)
    return hive.catalog(tmp_path)


class Reader:
    """A plain session, which knows nothing of versions, and its table."""

    def __init__(self, hive: HiveSpark, folder: Path) -> None:
        self.spark = hive.one_session.spark.newSession()
        self.name = f"{database_of(folder)}.{TABLE}"

    def rows(self) -> list[tuple]:
        return sorted((tuple(row) for row in self.spark.sql(f"SELECT * FROM {self.name}").collect()), key=str)

    def partitions(self) -> list[str]:
        return sorted(row.partition for row in self.spark.sql(f"SHOW PARTITIONS {self.name}").collect())

    def locations(self) -> dict[str, str]:
        found = {}
        for partition in self.partitions():
            values = (pair.split("=", 1) for pair in partition.split("/"))
            spec = ", ".join(
                f"{column}={'null' if value.startswith('__HIVE') else repr(unquote(value))}" for column, value in values
            )
            told = self.spark.sql(f"DESCRIBE EXTENDED {self.name} PARTITION ({spec})").collect()
            found[partition] = next(row.data_type for row in told if row.col_name == "Location")
        return found

    def properties(self) -> dict[str, str]:
        given = {row.key: row.value for row in self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()}
        told = {row.col_name: row.data_type for row in self.spark.sql(f"DESCRIBE EXTENDED {self.name}").collect()}
        ours = ("transient", "spark.sql.statistics", "rivet.", "numFiles", "totalSize")
        kept = {key: value for key, value in given.items() if not key.startswith(ours)}
        return kept | {title: told[title] for title in ("Owner", "Created Time", "Created By", "Type", "Provider")}


@pytest.fixture
def reader(hive, catalog, tmp_path) -> Reader:
    return Reader(hive, tmp_path)


@pytest.fixture
def made(hive, reader, tmp_path):
    """Make a table as dbt does, with partitions that somebody has added by hand."""

    def make(ddl: str = "USING parquet BY", query: str = "", by: str = "day, region") -> None:
        spark = reader.spark
        spark.sql("SET hive.exec.dynamic.partition.mode=nonstrict")
        spark.sql(f"CREATE TABLE {reader.name} {ddl.replace('BY', f'PARTITIONED BY ({by})')} AS {query or ROWS}")

    return make


ROWS = """SELECT id, IF(id = 3, NULL, concat('n', id)) AS name, date_add(DATE'2024-01-01', CAST(id % 2 AS INT)) AS day,
CASE id WHEN 0 THEN NULL WHEN 1 THEN 'a b%20/ü=x' ELSE 'eu' END AS region FROM range(5)"""
FIRST, SECOND = date(2024, 1, 1), date(2024, 1, 2)
THERE = [
    (0, "n0", FIRST, None),
    (1, "n1", SECOND, "a b%20/ü=x"),
    (2, "n2", FIRST, "eu"),
    (3, None, SECOND, "eu"),
    (4, "n4", FIRST, "eu"),
]
TYPES_OF = (("id", "bigint"), ("name", "string"), ("day", "date"), ("region", "string"))
DDL = ("USING parquet BY TBLPROPERTIES ('team' = 'sales')", "BY STORED AS PARQUET TBLPROPERTIES ('team' = 'sales')")


def write(catalog, session, plan, query: str, identity: str):
    with catalog.begin(TABLE, session) as transaction:
        transaction.write(plan, session.query(query))
        return transaction.commit(identity)


@pytest.mark.nightly
@pytest.mark.parametrize("ddl", DDL)
def test_a_table_with_partitions_is_taken_over_and_published_to(hive, session, catalog, reader, made, tmp_path, ddl):
    made(ddl)
    catalog.keep = 3
    spark = hive.one_session.spark
    elsewhere = tmp_path / "else where%20"
    spark.sql(f"ALTER TABLE {reader.name} ADD PARTITION (day='2023-01-01', region='us') LOCATION '{elsewhere}'")
    spark.sql(f"INSERT INTO {reader.name} PARTITION (day='2023-01-01', region='us') VALUES (9, 'n9')")
    spark.sql(f"ALTER TABLE {reader.name} ADD PARTITION (day='2022-01-01', region='none')")
    before = [*THERE, (9, "n9", date(2023, 1, 1), "us")]
    kept = (reader.partitions(), reader.properties())
    assert reader.rows() == before
    locations = reader.locations()
    assert len(locations) == 6
    existing = catalog.existing(TABLE)
    assert (existing.statistics.rows, existing.statistics.columns) == (6, TYPES_OF)
    assert existing.layout["partitions"] == "6 by day, region, whose rows are written anew"
    with pytest.raises(RivetError, match="rivet-dagster adopt JOINT"):
        publish(catalog, session, ROWS, "one")

    adopted = catalog.adopt(TABLE)
    assert (adopted.identity, adopted.statistics.rows) == ("adopted", 6)
    assert (reader.rows(), reader.partitions(), reader.properties()) == (before, *kept)
    assert not set(reader.locations().values()) & set(locations.values())
    again = hive.catalog(tmp_path)
    assert (again.existing(TABLE), again.adopt(TABLE), again.current(TABLE)) == (None, adopted, adopted)
    assert again.give_up(TABLE)
    assert (reader.rows(), reader.locations(), again.current(TABLE)) == (before, locations, None)
    assert reader.properties() == kept[1]
    assert not again.give_up(TABLE)
    home = Path(catalog.layout(TABLE).home)
    assert sorted(path.name for path in (home / "partitions").iterdir()) == ["empty"]

    catalog.adopt(TABLE)
    first = reader.locations()
    appended = "SELECT 7L AS id, 'x' AS name, DATE'2024-01-01' AS day, 'eu' AS region"
    published = write(catalog, session, Append(), appended, "two")
    assert (reader.rows(), published.rows_before) == (sorted([*before, (7, "x", FIRST, "eu")], key=str), 6)
    second = reader.locations()
    changed = {partition for partition in first if first[partition] != second.get(partition)}
    # The partition without rows vanishes with the first version that is published.
    assert changed == {"day=2024-01-01/region=eu", "day=2022-01-01/region=none"}
    assert set(first) - set(second) == {"day=2022-01-01/region=none"}
    assert reader.properties() == kept[1]
    with pytest.raises(RivetError, match=r"published from here \(two\)"):
        catalog.give_up(TABLE)

    new = "SELECT 1L AS id, CAST(NULL AS STRING) AS name, 'new' AS region, DATE'2024-01-02' AS day, 2.5D AS net"
    write(catalog, session, ReplaceAll(), f"{new} UNION ALL {new.replace('new', 'eu')}", "three")
    expected = [(1, None, 2.5, SECOND, "eu"), (1, None, 2.5, SECOND, "new")]
    assert [tuple(row) for row in reader.spark.newSession().table(reader.name).orderBy("region").collect()] == expected
    assert reader.partitions() == ["day=2024-01-02/region=eu", "day=2024-01-02/region=new"]
    write(catalog, session, ReplaceAll(), f"{new} UNION ALL {new.replace('new', 'eu')}", "four")
    assert [tuple(row) for row in reader.spark.newSession().table(reader.name).orderBy("region").collect()] == expected
    current = catalog.current(TABLE)
    assert (current.statistics.rows, catalog.max_of(current, "id")) == (2, 1)
    with catalog.restage(TABLE, published.version) as restaged:
        restaged.commit("rollback")
    assert [tuple(row)[:2] for row in reader.spark.newSession().table(reader.name).orderBy("id").collect()] == [
        (row[0], row[1]) for row in sorted([*before, (7, "x", FIRST, "eu")])
    ]
    retained = {version.name for version in catalog.versions(TABLE)}
    assert {path.name.partition(".")[0] for path in home.iterdir() if path.name[0] == "0"} == retained
    folders = {path.name for path in (home / "partitions").iterdir()} - {"empty"}
    used = {Path(each).parent.name for each in second.values()}
    assert folders <= retained | used | {adopted.version, published.version}


STEPS = [
    ("set_version", "before"),
    ("set_version", "after"),
    ("create_partitions", "after"),
    ("move_partitions", "before"),
    ("move_partitions", "after"),
    ("drop_partitions", "after"),
]
"""Calls around which a process is killed: a witness tells whether that of ``move_partitions`` has happened."""


@pytest.mark.nightly
@pytest.mark.parametrize(("step", "moment"), [*STEPS[:2], *STEPS[3:5]])
def test_a_kill_leaves_the_table_as_it_was_or_taken_over(hive, session, catalog, reader, made, tmp_path, step, moment):
    made()
    locations = reader.locations()
    with reading(reader.rows) as seen:
        adopt_in_a_killed_process(hive, tmp_path, step, moment)
    assert all(found == THERE for found in seen), seen
    is_adopted = (step, moment) in STEPS[4:]
    assert (catalog.current(TABLE) is not None, reader.locations() != locations) == (is_adopted, is_adopted)
    adopted = catalog.adopt(TABLE)
    assert (reader.rows(), adopted.statistics.rows) == (THERE, 5)
    home = catalog.layout(TABLE).home
    assert [path.name for path in home.iterdir() if path.is_dir() and path.name != "partitions"] == [adopted.version]
    publish(catalog, session, "SELECT 1L AS id, 'n' AS name, DATE'2025-01-01' AS day, 'eu' AS region", "two")
    assert (reader.rows(), reader.partitions()) == ([(1, "n", date(2025, 1, 1), "eu")], ["day=2025-01-01/region=eu"])


REPLACED = "SELECT 1L AS id, 'n' AS name, DATE'2024-01-01' AS day, region FROM (VALUES ('eu'), ('new')) AS r(region)"
AFTER = [(1, "n", FIRST, "eu"), (1, "n", FIRST, "new")]


@pytest.mark.nightly
@pytest.mark.parametrize(("step", "moment"), STEPS)
def test_a_killed_run_has_published_all_or_nothing(hive, session, catalog, reader, made, tmp_path, step, moment):
    made()
    adopted = catalog.adopt(TABLE)
    with reading(reader.rows) as seen:
        publish_in_a_killed_process(hive, tmp_path, REPLACED, moment, step)
    # All partitions change, one is new and three vanish; readers see all of that or nothing of it.
    assert all(found in (THERE, AFTER) for found in seen), seen
    is_published = (step, moment) in STEPS[4:]
    assert reader.rows() == (AFTER if is_published else THERE)
    published = catalog.published_by(TABLE, "killed")
    assert (published is not None, catalog.current(TABLE)) == (is_published, published or adopted)
    for alive in catalog.layout(TABLE).home.glob("*.alive"):
        os.utime(alive, (0, 0))
    rows = "SELECT 2L AS id, 'm' AS name, DATE'2024-01-01' AS day, 'eu' AS region"
    publish(catalog, session, rows, "next")
    assert (reader.rows(), reader.partitions()) == ([(2, "m", FIRST, "eu")], ["day=2024-01-01/region=eu"])
    home = catalog.layout(TABLE).home
    folders = {path.name for path in (home / "partitions").iterdir()} - {"empty"}
    assert folders <= {version.name for version in catalog.versions(TABLE)}


@pytest.mark.nightly
def test_a_kill_while_a_table_is_given_up_leaves_it_taken_over_or_not(hive, catalog, reader, made, tmp_path):
    made()
    locations = reader.locations()
    for step, moment, given_up in (
        ("set_version", "after", False),
        ("move_partitions", "before", False),
        ("move_partitions", "after", True),
    ):
        catalog.adopt(TABLE)
        adopt_in_a_killed_process(hive, tmp_path, step, moment, "give_up")
        assert (catalog.current(TABLE) is None, reader.locations() == locations) == (given_up, given_up)
        assert reader.rows() == THERE
        assert catalog.give_up(TABLE) is not given_up
        assert (reader.rows(), reader.locations()) == (THERE, locations)
    assert not any("rivet" in row.key for row in reader.spark.sql(f"SHOW TBLPROPERTIES {reader.name}").collect())


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("INT", ["7", "-1", "NULL"]),
        ("DATE", ["DATE'2024-02-29'", "NULL"]),
        ("STRING", ["'07'", "'x/y=%3A {}'", "'Ä'", "NULL"]),
        ("TIMESTAMP", ["TIMESTAMP'2024-01-31 10:00:00'", "TIMESTAMP'2024-01-31 10:00:00.5'", "NULL"]),
        ("BOOLEAN", ["true", "false"]),
        ("BIGINT", ["9223372036854775807"]),
    ],
)
def test_columns_of_partitions_have_these_types(session, catalog, reader, made, type_, values):
    query = "SELECT {1} AS id, CAST({0} AS " + type_ + ") AS p"
    made("USING parquet BY", " UNION ALL ".join(query.format(value, 1) for value in values), "p")
    before, partitions = reader.rows(), reader.partitions()
    assert (len(before), len(partitions)) == (len(values), len(values))
    assert catalog.adopt(TABLE).statistics.rows == len(values)
    assert (reader.rows(), reader.partitions()) == (before, partitions)
    publish(catalog, session, query.format(values[0], 2), "two")
    assert (reader.rows(), len(reader.partitions())) == ([(2, before[0][1])] if len(values) == 1 else reader.rows(), 1)
    assert [row[0] for row in reader.rows()] == [2]
    write(catalog, session, Append(), " UNION ALL ".join(query.format(value, 1) for value in values[1:] or values), "3")
    assert sorted({row[1] for row in reader.rows()}, key=str) == sorted({row[1] for row in before}, key=str)


@pytest.mark.nightly
def test_partitions_that_no_version_can_have_are_refused(catalog, reader):
    reader.spark.conf.set("spark.sql.hive.manageFilesourcePartitions", "false")
    reader.spark.sql(f"CREATE TABLE {reader.name} USING parquet PARTITIONED BY (p) AS SELECT 1 AS id, 2 AS p")
    with pytest.raises(RivetError, match=r"RVT-404 .* has its partitions in folders alone: have `MSCK REPAIR"):
        catalog.adopt(TABLE)
    reader.spark.conf.set("spark.sql.hive.manageFilesourcePartitions", "true")
    reader.spark.sql(f"DROP TABLE {reader.name}")
    reader.spark.sql(f"CREATE TABLE {reader.name} (id INT) PARTITIONED BY (p DOUBLE) STORED AS PARQUET")
    for call in (catalog.existing, catalog.adopt):
        with pytest.raises(RivetError, match=r"RVT-404 .* is PARTITIONED BY p, whose type is double"):
            call(TABLE)


@pytest.mark.nightly
def test_batches_that_do_not_fit_the_partitions_are_refused(hive, session, catalog, reader, made):
    made()
    catalog.adopt(TABLE)
    whole = "SELECT 1L AS id, 'x' AS name, DATE'2024-01-01' AS day, 'eu' AS region"
    for plan, query, why in (
        (ReplaceAll(), "SELECT 1L AS id, 'x' AS name, 'eu' AS region", "RVT-514 the batch lacks day, by which"),
        (
            Append(schema_change="add"),
            "SELECT 1L AS id, 'x' AS name, 'eu' AS region",
            "RVT-514 the batch lacks day, by which",
        ),
        (ReplaceAll(), whole.replace("'x' AS name, ", ""), r"RVT-404 .* the batch lacks name \(string\)"),
        (ReplaceAll(), whole.replace("1L", "1"), r"RVT-404 .* id is bigint in the table and int in the version"),
        (ReplaceAll(), whole.replace("'eu'", "''"), "RVT-404 Hive takes the value '' of region for NULL"),
    ):
        with pytest.raises(RivetError, match=why):
            write(catalog, session, plan, query, "run")
        assert reader.rows() == THERE
    # What somebody else writes to a partition is not lost: it stays unless it would be moved.
    reader.spark.sql(f"INSERT INTO {reader.name} VALUES (8, 'n8', DATE'2024-01-01', 'eu')")
    write(catalog, session, Append(), whole.replace("eu", "us"), "two")
    seen = sorted([*THERE, (1, "x", FIRST, "us"), (8, "n8", FIRST, "eu")], key=str)
    assert reader.rows() == seen
    with pytest.raises(RivetError, match="has other files in its partition day=2024-01-01/region=eu"):
        write(catalog, session, Append(), whole, "three")
    assert reader.rows() == seen


@pytest.mark.nightly
def test_what_others_write_while_a_table_is_taken_over_is_not_lost(hive, catalog, reader, made, monkeypatch):
    made()
    locations, tidy = reader.locations(), partitioned_adoption.lifecycle.tidy

    def tidy_late(*arguments):
        monkeypatch.setattr(partitioned_adoption.lifecycle, "tidy", tidy)
        hive.one_session.spark.newSession().sql(f"INSERT INTO {reader.name} VALUES (8, 'n8', DATE'2024-01-01', 'eu')")
        return tidy(*arguments)

    monkeypatch.setattr(partitioned_adoption.lifecycle, "tidy", tidy_late)
    with pytest.raises(RivetError, match="RVT-405"):
        catalog.adopt(TABLE)
    assert (reader.locations(), catalog.current(TABLE)) == (locations, None)
    assert catalog.adopt(TABLE).statistics.rows == 6
    reader.spark.sql(f"INSERT INTO {reader.name} VALUES (9, 'n9', DATE'2025-01-01', 'eu')")
    with pytest.raises(RivetError, match=r"RVT-404 .* has other files in its partition day=2025-01-01/region=eu"):
        catalog.give_up(TABLE)
    assert len(reader.rows()) == 7


def test_a_table_without_partitions_yet_is_taken_over(session, catalog, reader):
    reader.spark.sql(f"CREATE TABLE {reader.name} (id INT) PARTITIONED BY (p STRING) STORED AS PARQUET")
    assert catalog.adopt(TABLE).statistics.rows == 0
    assert catalog.give_up(TABLE)
    catalog.adopt(TABLE)
    publish(catalog, session, "SELECT 1 AS id, 'a' AS p", "two")
    assert (reader.rows(), reader.partitions()) == ([(1, "a")], ["p=a"])
    publish(catalog, session, "SELECT 1 AS id, 'a' AS p WHERE false", "three")
    assert (reader.rows(), reader.partitions()) == ([], [])
    publish(catalog, session, "SELECT 1 AS id, 'a' AS p WHERE false", "four")
    publish(catalog, session, "SELECT 2 AS id, CAST(NULL AS STRING) AS p", "five")
    assert (reader.rows(), catalog.current(TABLE).identity) == ([(2, None)], "five")


@pytest.mark.nightly
def test_partitions_of_a_joint_are_those_of_hive(hive, catalog, reader, made, tmp_path, capsys):
    """And a run whose gate fails changes none of them."""
    made(query="SELECT 1 AS n, DATE'2024-01-01' AS day UNION ALL SELECT 2, DATE'2024-01-02'", by="day")
    place = {"metastore": str(hive.place / "metastore"), "warehouse": str(hive.place / "warehouse")}
    profile = deepcopy(PROFILES)
    profile["default"]["catalogs"]["hive"] = {"type": "spark", "database": database_of(tmp_path), **place}
    profile["default"]["engines"][0]["catalogs"].append("hive")
    daily = "{type: daily, column: day, start: 2024-01-01}"
    text = f"-- rivet:catalog: hive\n-- rivet:adopt: true\n-- rivet:partitions: {daily}\n"
    text += "-- rivet:assert: expression(sql='n > 0')\nSELECT n, day FROM raw_days"
    folder = ProjectFolder(
        tmp_path / "project",
        {
            "profiles.yaml": profile,
            "data/days.csv": "n,day\n5,2024-01-01\n",
            "sources/raw_days.yaml": source("days.csv", "n INT, day DATE"),
            "joints/orders.sql": text,
        },
    )
    run = ["-p", str(folder.root), "run", "--format", "json", "--partition"]
    assert main([*run, "2024-01-01"]) == 0
    assert reader.rows() == [(2, SECOND), (5, FIRST)]
    before = reader.locations()
    folder.write({"data/days.csv": "n,day\n-5,2024-01-02\n"})
    assert main([*run, "2024-01-02"]) == 4
    assert (reader.rows(), reader.locations()) == ([(2, SECOND), (5, FIRST)], before)
    folder.write({"data/days.csv": "n,day\n7,2024-01-02\n"})
    assert main([*run, "2024-01-02"]) == 0
    assert reader.rows() == [(5, FIRST), (7, SECOND)]
    after = reader.locations()
    assert {day for day in after if after[day] != before[day]} == {"day=2024-01-02"}


@pytest.mark.nightly
def test_a_batch_replaces_the_partitions_of_its_values(session, catalog, reader, made):
    made()
    catalog.adopt(TABLE)
    batch = "SELECT 6L AS id, 'x' AS name, DATE'2024-01-01' AS day, 'eu' AS region"
    write(catalog, session, ReplacePartitions(column="day"), batch, "two")
    assert reader.rows() == [row for row in THERE if row[2] == SECOND] + [(6, "x", FIRST, "eu")]
