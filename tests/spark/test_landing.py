"""Landing zones read by Spark: exactly the new files, their columns, and archiving after publishing."""

import os
import random
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from support.folders import ProjectFolder, sink
from support.torture import examples

from rivet_dagster import compile_directory
from rivet_dagster.catalogs.filesystem.sources.landing import FilesystemLandingZone
from rivet_dagster.catalogs.filesystem.versions import records
from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.quality.judging import check_source
from rivet_dagster.execution.reading.inputs import reference
from rivet_dagster.execution.reading.sources import data_version
from rivet_dagster.execution.writing import publish as transaction

ORDERS = "-- rivet:description: as they come\nSELECT * FROM incoming"


def zone(table: str = "incoming", archive: bool = False, **fields: Any) -> dict[str, Any]:
    options = {"landing": True, "archive": archive, **fields.pop("options", {})}
    return {"type": "source", "catalog": "raw", "table": table, "options": options, **fields}


def landing(project, source: dict[str, Any], **files: Any) -> ProjectFolder:
    """Write a project that writes the new files of a zone to the table `out`."""
    folder = project({
        "sources/incoming.yaml": source, "joints/orders.sql": ORDERS, "sinks/out.yaml": sink("out", "orders"), **files,
    })  # fmt: skip
    (folder.root / "data/incoming").mkdir(parents=True, exist_ok=True)
    return folder


def put(folder: ProjectFolder, name: str, text: str | bytes) -> Path:
    """Add a file by renaming it."""
    path = folder.root / "data/incoming" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    coming = path.with_name(f".{path.name}")
    coming.write_bytes(text if isinstance(text, bytes) else text.encode())
    return coming.rename(path)


def rows(folder: ProjectFolder) -> list[tuple]:
    return [tuple(row.values()) for row in folder.rows("out")]


def zone_files(folder: ProjectFolder) -> list[str]:
    drop = folder.root / "data/incoming"
    found = sorted(path for path in drop.rglob("*") if path.is_file())
    return [str(path.relative_to(drop)) for path in found if "_archive" not in path.parts]


def failure(call, *arguments) -> RivetError:
    with pytest.raises(RivetError) as caught:
        call(*arguments)
    return caught.value


def test_each_run_reads_only_the_new_files_in_one_query(project, sql_executions):
    drop = landing(project, zone(options={"schema": "id INT, name STRING"}))
    put(drop, "a.csv", "id,name\n1,x\n2,y\n")
    put(drop, "b.csv", "id,name\n3,z\n")
    sql_executions.since()
    drop.run("out")
    assert sql_executions.since() == 1
    assert rows(drop) == [(1, "x"), (2, "y"), (3, "z")]
    put(drop, "c.csv", "id,name\n4,w\n")
    drop.run("out")
    assert rows(drop) == [(4, "w")]
    put(drop, "b.csv", "id,name\n3,zz\n5,v\n")  # changed
    drop.run("out")
    assert rows(drop) == [(3, "zz"), (5, "v")]


NAMES = ("a b.csv", "[x].csv", "{1,2}.csv", "50%.csv", "%41.csv", "a+b&c.csv", "ümlaut é.csv", "what?.csv", "s*r.csv",
         "deep/er/x.csv", "back\\slash.csv", "quo'te\".csv")  # fmt: skip


def test_files_of_any_name_in_any_folder_are_read(project):
    drop = landing(project, zone(options={"schema": "id INT"}))
    # Files that some of the other names would match as globs, and that must not be read again.
    put(drop, "1.csv", "id\n-1\n")
    put(drop, "x.csv", "id\n-2\n")
    drop.run("out")
    drop.write({"sources/incoming.yaml": zone(archive=True, options={"schema": "id INT"})})
    for number, name in enumerate(NAMES):
        put(drop, name, f"id\n{number}\n")
    assert drop.run("out").not_archived is None
    assert sorted(rows(drop)) == [(number,) for number in range(len(NAMES))]
    assert zone_files(drop) == []


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("table", ["incoming", "incoming/*.csv", "incoming/{a,b,c}*"])
def test_a_file_that_arrives_during_a_run_is_read_by_the_next(project, table):
    """A Python joint adds it after the files were listed and before they are published."""
    drop = landing(
        project,
        zone(table, archive=True),
        **{
            "joints/orders.sql": "SELECT * FROM made",
            "joints/made.py": """
from pathlib import Path

def transform(incoming):
    rows = incoming.to_arrow()
    arrived = Path(__file__).parents[1] / "data/incoming" / f"c{len(rows)}.csv"
    arrived.write_text("id\\n9\\n")
    assert incoming.row_count == len(rows) == incoming.to_spark().count()
    return rows
""",
        },
    )
    put(drop, "a.csv", "id\n1\n")
    put(drop, "b.csv", "id\n2\n")
    assert drop.run("made").not_archived is None
    drop.run("out")
    assert rows(drop) == [("1",), ("2",)]
    assert zone_files(drop) == ["c2.csv"]
    drop.run("made")
    drop.run("out")
    assert (rows(drop), zone_files(drop)) == ([("9",)], ["c1.csv"])


def frame(n: int) -> pa.Table:
    columns = {"id": pa.array([n, n + 1], pa.int32()), "at": pa.array([0, 1], pa.date32())}
    return pa.table({**columns, "tags": pa.array([["a"], None], pa.list_(pa.string()))})


def write_file(path: Path, n: int, format: str) -> None:
    if format == "parquet":
        pq.write_table(frame(n), path)
    elif format == "orc":
        orc.write_table(frame(n), path)
    elif format == "json":
        frame(n).to_pandas().to_json(path, orient="records", lines=True, date_format="iso")
    else:
        path.write_text(f"id,at\n{n},2026-01-01\n{n + 1},2026-01-02\n")


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize(
    ("format", "options"),
    [("parquet", {}), ("orc", {}), ("json", {}), ("csv", {}), ("csv", {"inferSchema": True})],
    ids=["parquet", "orc", "json", "csv", "csv-inferred"],
)
def test_without_new_files_the_columns_are_those_of_the_last_files(project, format, options, archive):
    drop = landing(project, zone(archive=archive, options={**options, "format": format}))
    write_file(drop.root / f"data/incoming/a.{format}", 1, format)
    drop.run("out")
    before = drop.table("out")
    assert before["id"].cast("string").to_pylist() == ["1", "2"]
    result = drop.run("out")
    after = drop.table("out")
    assert (result.rows.total, after.schema) == (0, before.schema)
    write_file(drop.root / f"data/incoming/b.{format}", 3, format)
    drop.run("out")
    assert drop.table("out")["id"].cast("string").to_pylist() == ["3", "4"]


def test_partition_folders_add_their_columns_in_every_run(project):
    drop = landing(project, zone(archive=True))
    put(drop, "day=2026-01-01/a.csv", "id\n1\n")
    put(drop, "day=2026-01-02/a.csv", "id\n2\n")
    drop.run("out")
    assert [(row["id"], str(row["day"])) for row in drop.rows("out")] == [("1", "2026-01-01"), ("2", "2026-01-02")]
    before = drop.table("out").schema
    put(drop, "day=2026-01-02/b.csv", "id\n3\n")
    drop.run("out")
    assert [(row["id"], str(row["day"])) for row in drop.rows("out")] == [("3", "2026-01-02")]
    assert drop.run("out").rows.total == 0
    assert drop.table("out").schema == before


def test_other_folders_than_partitions_are_read_too(project):
    drop = landing(project, zone())
    put(drop, "a.csv", "id\n1\n")
    put(drop, "2026/01/b.csv", "id\n2\n")
    put(drop, "_draft/c.csv", "id\n3\n")
    drop.run("out")
    assert rows(drop) == [("1",), ("2",)]


def test_columns_and_a_filter_of_the_source(project):
    drop = landing(project, zone(columns=["id", {"twice": "id * 2"}], filter="id > 1", options={"inferSchema": True}))
    put(drop, "a.csv", "id,x\n1,a\n2,b\n")
    drop.run("out")
    assert rows(drop) == [(2, 4)]
    assert drop.run("out").rows.total == 0
    assert drop.table("out").column_names == ["id", "twice"]


def test_new_columns_of_new_files_are_read(project):
    drop = landing(project, zone())
    put(drop, "a.csv", "id\n1\n")
    drop.run("out")
    put(drop, "b.csv", "id,more\n2,x\n")
    drop.run("out")
    assert drop.rows("out") == [{"id": "2", "more": "x"}]


def test_a_declared_schema_has_the_columns_before_the_first_file(project):
    drop = landing(project, zone(options={"schema": "id BIGINT, at DATE"}))
    assert drop.run("out").rows.total == 0
    assert [str(field.type) for field in drop.table("out").schema] == ["int64", "date32[day]"]
    put(drop, "a.csv", "id,at\n1,2026-01-01\n")
    drop.run("out")
    assert drop.table("out").num_rows == 1


def test_without_files_and_a_schema_the_run_fails(project):
    drop = landing(project, zone())
    error = failure(drop.run, "out")
    assert (error.code, error.diagnostics[0].joint) == ("RVT-403", "incoming")
    assert "holds no file, and nothing tells its columns yet" in str(error)
    assert drop.versions("out") == []


def test_empty_files_have_the_columns_of_earlier_files(project):
    drop = landing(project, zone(archive=True))
    put(drop, "a.csv", "id\n1\n")
    drop.run("out")
    put(drop, "b.csv", "")
    assert drop.run("out").rows.total == 0
    assert (drop.table("out").column_names, zone_files(drop)) == (["id"], [])


def test_a_damaged_file_fails_the_run_until_it_is_repaired(project):
    drop = landing(project, zone(options={"format": "parquet", "schema": "id BIGINT"}, archive=True))
    pq.write_table(pa.table({"id": [1]}), drop.root / "data/incoming/a.parquet")
    put(drop, "b.parquet", b"PAR1 no such thing PAR1")
    assert failure(drop.run, "out").code == "RVT-503"
    assert zone_files(drop) == ["a.parquet", "b.parquet"]
    pq.write_table(pa.table({"id": [2]}), drop.root / "data/incoming/b.parquet")
    drop.run("out")
    assert (rows(drop), zone_files(drop)) == ([(1,), (2,)], [])


def test_a_failed_gate_consumes_nothing(project):
    gate = sink("out", "orders", assertions=[{"type": "expression", "sql": "id > 0", "name": "positive"}])
    drop = landing(project, zone(archive=True, options={"schema": "id INT"}), **{"sinks/out.yaml": gate})
    put(drop, "a.csv", "id\n1\n")
    put(drop, "b.csv", "id\n-1\n")
    assert drop.run("out").gate_failed
    assert zone_files(drop) == ["a.csv", "b.csv"]
    put(drop, "b.csv", "id\n2\n")
    drop.run("out")
    assert (rows(drop), zone_files(drop)) == ([(1,), (2,)], [])


def test_two_readers_each_read_all_files_and_the_last_archives(project):
    drop = landing(
        project,
        zone(archive=True, options={"schema": "id INT"}),
        **{"joints/ids.sql": "SELECT max(id) AS id FROM incoming", "sinks/top.yaml": sink("top", "ids")},
    )
    put(drop, "a.csv", "id\n1\n")
    drop.run("out")
    put(drop, "b.csv", "id\n2\n")
    drop.run("out")
    assert zone_files(drop) == ["a.csv", "b.csv"]
    put(drop, "c.csv", "id\n3\n")
    drop.run("top")
    assert drop.rows("top") == [{"id": 3}]
    assert zone_files(drop) == ["c.csv"]
    drop.run("out")
    assert (rows(drop), zone_files(drop)) == ([(3,)], [])


def writing(strategy: dict[str, Any], **source: Any) -> dict[str, Any]:
    """Return a zone, and a sink that writes its new rows by a strategy."""
    return {"source": zone(**source), "sinks/out.yaml": sink("out", "orders", write_strategy=strategy)}


def test_new_files_are_appended_once_despite_failures_in_between(project):
    """Random runs, some of which fail at the gate or after publishing, compared with a count."""
    gate = [{"type": "expression", "sql": "id >= 0", "name": "positive"}]
    out = sink("out", "orders", assertions=gate, write_strategy={"mode": "append", "on_empty": "skip"})
    drop = landing(project, zone(archive=True, options={"schema": "id INT"}), **{"sinks/out.yaml": out})
    chance, number, expected = random.Random(7), 0, []
    for _ in range(examples(8, 20)):
        for _ in range(chance.randint(0, 2)):
            number += 1
            put(drop, f"{number % 5}-{number}.csv", f"id\n{number}\n")
            expected.append(number)
        bad = put(drop, "bad.csv", "id\n-1\n") if chance.random() < 0.2 else None
        identity = f"{number}-{chance.random()}"
        killed = patch.object(FilesystemLandingZone, "archive", side_effect=KeyboardInterrupt)
        with suppress(KeyboardInterrupt), killed if chance.random() < 0.3 else nullcontext():
            drop.run("out", identity=identity)
        if bad:
            bad.unlink()
        drop.run("out", identity=identity)
        assert [row["id"] for row in drop.table("out").sort_by("id").to_pylist()] == expected
    drop.run("out")
    assert zone_files(drop) == []


def test_changed_files_are_merged(project):
    files = writing({"mode": "merge", "key_columns": ["id"]}, options={"schema": "id INT, name STRING"})
    drop = landing(project, files.pop("source"), **files)
    put(drop, "a.csv", "id,name\n1,x\n2,y\n")
    drop.run("out")
    put(drop, "a.csv", "id,name\n1,x\n2,yy\n3,z\n")
    result = drop.run("out")
    assert rows(drop) == [(1, "x"), (2, "yy"), (3, "z")]
    assert vars(result.rows) == {"inserted": 1, "updated": 1, "deleted": 0, "total": 3}
    result = drop.run("out")
    assert vars(result.rows) == {"inserted": 0, "updated": 0, "deleted": 0, "total": 3}


def test_an_overtaken_run_appends_nothing_twice(project, monkeypatch):
    monkeypatch.setattr(transaction, "PAUSES", (0.0, 0.0, 0.0))
    files = writing({"mode": "append"}, options={"schema": "id INT"})
    drop = landing(project, files.pop("source"), **files)
    put(drop, "a.csv", "id\n1\n")
    commit, left = FilesystemTransaction.commit, [2]

    def overtaken(*arguments):
        if left[0]:
            left[0] -= 1
            put(drop, f"{left[0]}.csv", f"id\n{left[0] + 5}\n")
            with patch.object(FilesystemTransaction, "commit", commit):
                drop.run("out")
        return commit(*arguments)

    with patch.object(FilesystemTransaction, "commit", overtaken):
        drop.run("out")
    assert rows(drop) == [(1,), (5,), (6,)]


def test_outside_of_a_run_all_existing_files_are_read(project):
    gated = zone(quality={"assertions": [{"type": "row_count", "min": 1}, {"type": "not_null", "columns": ["id"]}]})
    drop = landing(project, gated)
    put(drop, "a.csv", "id\n1\n")
    put(drop, "deep/b.csv", "id\n2\n")
    drop.run("out")
    expected = pd.DataFrame({"id": ["1", "2"]})
    assert reference(drop.runtime, "incoming").to_arrow().to_pandas().sort_values("id").equals(expected)
    assert reference(drop.runtime, "orders").row_count == 2
    assert [check.passed for check in check_source(drop.runtime, "incoming")] == [True, True]
    drop.write({"sources/incoming.yaml": {**gated, "options": {"landing": True, "archive": True}}})
    assert drop.run("out").rows.total == 0
    assert zone_files(drop) == []
    empty = reference(drop.runtime, "incoming").to_arrow()
    assert (empty.num_rows, empty.column_names) == (0, ["id"])
    assert [check.passed for check in check_source(drop.runtime, "incoming")] == [False, True]


def test_the_data_version_follows_the_files_without_spark(project):
    drop = landing(project, zone(archive=True))
    source = drop.assembly.joint("incoming")
    empty = data_version(drop.runtime, source)
    path = put(drop, "a.csv", "id\n1\n")
    one = data_version(drop.runtime, source)
    os.utime(path, ns=(0, 1))
    touched = data_version(drop.runtime, source)
    assert len({empty, one, touched}) == 3
    drop.run("out")
    assert data_version(drop.runtime, source) == empty


def test_introspection_returns_the_columns_of_a_zone(project):
    drop = landing(project, zone())
    put(drop, "a.csv", "id,name\n1,x\n")
    schema = compile_directory(drop.root, introspect=True).joint("out").schema
    assert [field.name for field in schema] == ["id", "name"]


def test_a_run_parses_the_record_of_the_files_that_stay_a_few_times(project, monkeypatch):
    """It lists all of them, and may be long: once for each version that is read, and the one that is written."""
    folder = landing(project, zone(options={"schema": "id INT", "format": "csv"}))
    parsed: list[str] = []
    parse = records.manifest_from

    def recorded(fields: dict[str, Any]) -> records.Manifest:
        if "columns" in fields:  # a manifest, and no line about who published
            parsed.append(fields["version"])
        return parse(fields)

    monkeypatch.setattr(records, "manifest_from", recorded)
    counts = []
    for number in range(4):
        put(folder, f"{number}.csv", f"id\n{number}\n")
        parsed.clear()
        folder.run("out")
        counts.append(len(parsed))
        assert all(parsed.count(version) <= 2 for version in parsed), parsed
    assert 1 <= counts[-1] <= 2, counts
