"""Folders of Parquet files in partitions that somebody else has made, taken over as the first version of a table."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.adoption import make_folder
from support.tables import catalog, publish, refused, tree

from rivet_dagster.catalogs.filesystem.files.partitioned_folder import PartitionedFolder
from rivet_dagster.model.schema import Field
from rivet_dagster.model.storage import CURRENT, OLDER

BY_DAY = (Field("day", "date"),)
# Writers use one file name in several partitions.
FILES = {
    "day=2024-01-01/0.parquet": [1, 2],
    "day=2024-01-02/0.parquet": [3],
    "day=2024-01-02/1.parquet": [4],
    "day=__HIVE_DEFAULT_PARTITION__/0.parquet": [5],
    "_SUCCESS": b"",
    ".day=2024-01-01.crc": b"crc",
}
FIRST, SECOND = date(2024, 1, 1), date(2024, 1, 2)
ROWS = [(1, FIRST), (2, FIRST), (3, SECOND), (4, SECOND), (5, None)]


@pytest.fixture
def lake(tmp_path):
    return catalog(tmp_path, "lake")


@pytest.fixture
def folder(tmp_path) -> Path:
    return make_folder(tmp_path / "lake/orders", FILES)


def rows(folder: Path) -> list[tuple[int, date | None]]:
    """Return what a reader sees that knows the type of the partitions' column, and nothing else."""
    by_day = ds.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
    found = ds.dataset(folder, format="parquet", partitioning=by_day).to_table()
    return sorted(zip(found["id"].to_pylist(), found["day"].to_pylist(), strict=True))


def test_the_rows_become_the_first_version_with_the_columns_of_their_partitions(lake, folder):
    folder.chmod(0o750)
    (folder / "day=2024-01-01").chmod(0o750)
    before = tree(folder)
    assert rows(folder) == ROWS
    existing = lake.existing("orders", BY_DAY)
    assert (existing.statistics.rows, existing.statistics.columns) == (5, (("id", "bigint"), ("day", "date")))
    assert existing.layout["partitions"] == "3 by day"
    adopted = lake.adopt("orders", BY_DAY)
    assert (adopted.identity, adopted.statistics.rows) == ("adopted", 5)
    assert adopted.statistics.columns == existing.statistics.columns
    assert (rows(folder), folder.is_symlink(), folder.stat().st_mode & 0o777) == (ROWS, True, 0o750)
    assert all(path.suffix == ".parquet" for path in folder.iterdir())
    assert (lake.existing("orders", BY_DAY), lake.adopt("orders", BY_DAY)) == (None, adopted)
    assert [(v.name, v.state, v.identity) for v in lake.versions("orders")] == [(adopted.version, CURRENT, "adopted")]
    assert (lake.sweep(), lake.building(), tree(Path(f"{folder.resolve()}.adopted"))) == ((), (), before)
    assert [finding.status for finding in lake.examine(publishes=True)] == ["ok"]


def test_the_old_folder_expires_with_the_first_version(lake, folder):
    adopted = lake.adopt("orders", BY_DAY)
    aside = Path(f"{folder.resolve()}.adopted")
    publish(lake, [7])
    assert [(v.state, v.identity) for v in lake.versions("orders")] == [(CURRENT, "run"), (OLDER, "adopted")]
    with lake.restage("orders", adopted.version) as restaged:
        restaged.commit("rollback")
    assert rows(folder) == ROWS
    for number in range(3):
        publish(lake, [number])
    assert refused(lake.read, adopted).code == "RVT-401"
    assert not aside.exists()
    assert not [name for name in os.listdir(aside.parent) if adopted.version in name]


def test_it_is_given_up_until_another_version_is_published(lake, folder, tmp_path):
    before = tree(folder)
    for _ in range(2):
        lake.adopt("orders", BY_DAY)
        assert lake.give_up("orders")
        assert (folder.is_symlink(), tree(folder), rows(folder)) == (False, before, ROWS)
        assert os.listdir(tmp_path / "lake/.rivet/orders") == ["lock"]
        assert not lake.give_up("orders")
    lake.adopt("orders", BY_DAY)
    publish(lake, [7])
    assert refused(lake.give_up, "orders").code == "RVT-404"


def test_partitions_of_several_columns_and_texts_with_escapes(lake, tmp_path):
    """A text stays as it is, although it may look like a number."""
    files = {"n=7/name=a%2Fb %3D/0.parquet": [1], "n=-1/name=01/0.parquet": [2]}
    folder = make_folder(tmp_path / "lake/orders", files)
    lake.adopt("orders", (Field("name", "string"), Field("N", "bigint")))
    table = pq.read_table(folder).sort_by("id")
    assert table.to_pydict() == {"id": [1, 2], "n": [7, -1], "name": ["a/b =", "01"]}
    assert table.schema.field("n").type == pa.int64()


def test_a_type_that_is_not_known_is_the_one_that_spark_reads(lake, folder, tmp_path):
    make_folder(tmp_path / "lake/regions", {"region=eu/n=7/0.parquet": [1], "region=us/n=8/0.parquet": [1]})
    assert lake.existing("orders", (Field("day"),)).statistics.columns[-1] == ("day", "date")
    columns = lake.existing("regions", (Field("region"), Field("n"))).statistics.columns
    assert columns[-2:] == (("region", "string"), ("n", "int"))


def test_a_file_that_others_add_meanwhile_refuses_it(lake, folder, monkeypatch):
    write = PartitionedFolder.write_flat

    def write_late(partitioned, to):
        write(partitioned, to)
        make_folder(folder, {"day=2024-01-01/late.parquet": [9]})

    monkeypatch.setattr(PartitionedFolder, "write_flat", write_late)
    assert refused(lake.adopt, "orders", BY_DAY).code == "RVT-405"
    monkeypatch.undo()
    assert (folder.is_symlink(), os.listdir(folder.parent / ".rivet/orders")) == (False, ["lock"])
    assert lake.adopt("orders", BY_DAY).statistics.rows == 6


SPARK = pa.table({"id": [1]}).schema.with_metadata({
    b"org.apache.spark.sql.parquet.row.metadata": b'{"type":"struct","fields":[{"name":"id","type":"variant"}]}'
})  # fmt: skip
REFUSED = {
    "not partitioned": (FILES, (), "is partitioned by day, and the joint is not partitioned"),
    "another column": (FILES, (Field("at", "date"),), "is partitioned by day, and the joint is by at"),
    "one more column": (FILES, (*BY_DAY, Field("at", "date")), "is partitioned by day, and the joint is by day, at"),
    "no type": (
        {"day=01/0.parquet": [1]},
        (Field("day"),),
        "is partitioned by day, and the type of day is not known",
    ),
    "instants": (FILES, (Field("day", "timestamp"),), "is partitioned by day, and the type of day is timestamp"),
    "no number": (FILES, (Field("day", "int"),), "has a partition day=2024-01-0"),
    "files beside": (
        {**FILES, "0.parquet": [7]},
        BY_DAY,
        "has files in partitions of different columns, 0.parquet and day=2024-01-01/0.parquet",
    ),
    "other levels": (
        {**FILES, "day=2024-01-01/n=1/0.parquet": [7]},
        BY_DAY,
        "has files in partitions of different columns, day=2024-01-01/0.parquet and day=2024-01-01/n=1/0.parquet",
    ),
    "no partition": ({"2024/0.parquet": [7]}, BY_DAY, "has its files in folders, as in 2024"),
    "no file": ({"day=2024-01-01/_SUCCESS": b""}, BY_DAY, "has no Parquet file"),
    "the column twice": (
        {"day=2024-01-01/0.parquet": pa.table({"Day": [FIRST]})},
        BY_DAY,
        "has files that hold the columns of its partitions: day",
    ),
    "names": (
        {**FILES, "day=2024-01-03/0.parquet": pa.table({"ID": [1]})},
        BY_DAY,
        "has files whose columns differ, day=2024-01-01/0.parquet and day=2024-01-03/0.parquet: ID, id",
    ),
    "a type of Spark's": (
        {"day=2024-01-01/0.parquet": pa.table({"id": [1]}, SPARK)},
        BY_DAY,
        "has a column 'id' of the type variant, which is not written anew as it is",
    ),
    "half a file": ({**FILES, "day=2024-01-01/9.parquet": b"PAR1"}, BY_DAY, "has a file that is not read"),
    "Delta": ({**FILES, "_delta_log/0.json": b"{}"}, BY_DAY, "is a table of the format Delta"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_version_can_be_is_refused_and_stays(lake, tmp_path, name):
    files, columns, why = REFUSED[name]
    folder = make_folder(tmp_path / "lake/orders", files)
    before = tree(folder)
    for call in (lake.existing, lake.adopt):
        error = refused(call, "orders", columns)
        assert error.code == "RVT-404"
        assert "cannot be taken over: it " in str(error)
        assert why in str(error)
    assert (folder.is_symlink(), tree(folder)) == (False, before)
    assert os.listdir(tmp_path / "lake/.rivet/orders") == ["lock"]


def write_as_spark_does(folder: Path, at: datetime, version: bytes) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]).with_metadata({
        b"org.apache.spark.version": version,
        b"org.apache.spark.sql.parquet.row.metadata": b'{"type":"struct","fields":[{"name":"id","type":"long"},'
        b'{"name":"at","type":"timestamp"}]}',
    })  # fmt: skip
    table = pa.table({"id": [1], "at": [at.replace(tzinfo=None)]}, schema)
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "0.parquet", use_deprecated_int96_timestamps=True)


def test_instants_as_spark_stores_them_stay(lake, tmp_path):
    at = datetime(2024, 1, 1, 12, 30, 15, 123456, UTC)
    folder = tmp_path / "lake/orders"
    write_as_spark_does(folder / "day=2024-01-01", at, b"4.1.0")
    adopted = lake.adopt("orders", BY_DAY)
    assert adopted.statistics.columns == (("id", "bigint"), ("at", "timestamp"), ("day", "date"))
    assert pq.read_table(folder).to_pylist() == [{"id": 1, "at": at, "day": FIRST}]
    write_as_spark_does(tmp_path / "lake/older/day=2024-01-01", at, b"3.0.3")
    assert "TIMESTAMP in the Julian calendar" in str(refused(lake.adopt, "older", BY_DAY))
