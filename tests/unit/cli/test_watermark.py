"""``rivet-dagster watermark``, without an engine."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.folders import ProjectFolder, sink
from support.tables import catalog, refused

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.cli.main import main
from rivet_dagster.model.storage import Published
from rivet_dagster.model.watermark import Override

NOON = datetime(2026, 1, 31, 12)
TYPES = {
    "tinyint": ("byte", pa.int8(), [1, 3, None], "3", "4"),
    "smallint": ("short", pa.int16(), [1, 3, None], "3", "4"),
    "int": ("integer", pa.int32(), [1, 3, None], "3", "-4"),
    "bigint": ("long", pa.int64(), [1, 2**40, None], str(2**40), "5000000000"),
    "float": ("float", pa.float32(), [1.5, 2.5, None], "2.5", "4.5"),
    "double": ("double", pa.float64(), [1.5, 2.5, None], "2.5", "4.5"),
    "decimal(10,2)": ("decimal(10,2)", pa.decimal128(10, 2), [Decimal("1.50"), Decimal("9.10"), None], "9.10", "12.5"),
    "decimal(30,2)": ("decimal(30,2)", pa.decimal128(30, 2), [Decimal("1.50"), Decimal("9.10"), None], "9.10", "12.5"),
    "date": ("date", pa.date32(), [date(2026, 1, 1), date(2026, 3, 1), None], "2026-03-01", "2026-01-31"),
    "timestamp": (
        "timestamp", pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC), None],
        "2026-01-31 12:00:00+00:00", "2026-02-01 00:00:00+01:00",
    ),
    "timestamp_ntz": (
        "timestamp_ntz", pa.timestamp("us"), [NOON, None], "2026-01-31 12:00:00", "2026-02-01 00:00:00"
    ),
    "string": ("string", pa.string(), ["a", "ä" * 100, None], "ä" * 100, "NULL"),
}  # fmt: skip
"""By Spark's name of the type: the name in Spark's schema, Arrow's type, rows, the greatest as text, another value."""


@pytest.fixture
def folder(tmp_path) -> ProjectFolder:
    strategy = {"mode": "merge", "key_columns": ["id"], "watermark_column": "At", "lookback": "3d"}
    files = {
        "joints/numbers.sql": "SELECT * FROM elsewhere.numbers",
        "sinks/out.yaml": sink("orders", "numbers", write_strategy=strategy),
        "sinks/plain.yaml": sink("plain", "numbers"),
    }
    return ProjectFolder(tmp_path, files)


@pytest.fixture
def lake(folder) -> FilesystemCatalog:
    return catalog(folder.root, "lake")


def publish(lake: FilesystemCatalog, type_: str, values: list, table: str = "orders", **options) -> Published:
    """Publish a table with a column ``at`` as Spark would write it."""
    name, arrow, *_ = TYPES.get(type_, (type_, options.pop("arrow", None)))
    staged = lake.begin(table)
    schema = {"fields": [{"name": "at", "type": name, "nullable": True, "metadata": {}}]}
    described = {b"org.apache.spark.sql.parquet.row.metadata": json.dumps(schema).encode()}
    rows = pa.table({"at": pa.array(values, arrow)}).replace_schema_metadata(described)
    pq.write_table(rows, Path(staged.target.paths[0]) / "part-0.parquet", **options)
    return staged.commit("run")


def call(folder: ProjectFolder, capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["-p", str(folder.root), "watermark", *arguments])
    return code, *capsys.readouterr()


@pytest.mark.parametrize("type_", TYPES)
def test_values_of_every_type(folder, lake, capsys, type_):
    *_, values, greatest, other = TYPES[type_]
    published = publish(lake, type_, values)
    line = f"out: at {type_}, in the target {greatest}, lookback 3d"
    assert call(folder, capsys, "list") == (0, f"{line}\n", "")
    code, out, _ = call(folder, capsys, "set", "out", other)
    assert (code, out.split(";")[0]) == (0, f"out: the next run reads on from at {other}")
    assert lake.watermark_override(published) == Override(other)
    assert call(folder, capsys, "list", "out")[1] == f"{line}, set for the next run {other}\n"
    assert call(folder, capsys, "reset", "out")[1].startswith("out: the next run reads everything; once")
    assert call(folder, capsys, "list")[1] == f"{line}, set for the next run NULL\n"
    publish(lake, type_, values)
    assert call(folder, capsys, "list")[1] == f"{line}\n"


@pytest.mark.parametrize("type_", ["timestamp", "timestamp_ntz"])
def test_timestamps_written_by_older_sparks(lake, type_):
    # Beyond the range of a reader with nanoseconds.
    values = [value and value.replace(year=2300) for value in TYPES[type_][2]]
    published = publish(lake, type_, values, use_deprecated_int96_timestamps=True)
    assert lake.max_of(published, "AT") == values[0]


@pytest.mark.parametrize("values", [[], [None, None]])
@pytest.mark.parametrize("type_", ["int", "timestamp", "string", "double"])
def test_no_rows_have_no_watermark(folder, lake, capsys, type_, values):
    publish(lake, type_, values)
    assert call(folder, capsys, "list")[1] == f"out: at {type_}, in the target NULL, lookback 3d\n"


def test_the_watermark_is_the_greatest_value_of_all_files(lake):
    staged = lake.begin("orders")
    for number, values in enumerate((["b", "z"], ["c"], [None])):
        pq.write_table(
            pa.table({"at": pa.array(values, pa.string())}), f"{staged.target.paths[0]}/part-{number}.parquet"
        )
    assert lake.max_of(staged.commit("run"), "at") == "z"
    assert math.isnan(lake.max_of(publish(lake, "double", [1.0, math.nan, math.inf], "nan"), "at"))


@pytest.mark.parametrize(
    ("type_", "value", "words"),
    [
        ("int", "soon", "the column 'at' is of type int: 'soon' is no int like 42"),
        ("int", "2147483648", "is no int"),
        ("int", "1.0", "is no int"),
        ("bigint", "9" * 50, "is no bigint"),
        ("decimal(10,2)", "1.234", "is no decimal(10,2)"),
        ("decimal(10,2)", "123456789", "is no decimal(10,2)"),
        ("decimal(10,2)", "NaN", "is no decimal(10,2)"),
        ("double", "nan", "is no number"),
        ("date", "2026-02-30", "is no date like 2026-01-31"),
        ("timestamp", "2026-01-31T12:00:00", "has no offset from UTC, as in 2026-01-31T12:30:00Z"),
        ("timestamp", "yesterday", "is no time like"),
        ("timestamp_ntz", "2026-01-31T12:00:00Z", "has an offset"),
    ],
)
def test_a_value_of_another_type_is_not_stored(folder, lake, capsys, type_, value, words):
    published = publish(lake, type_, TYPES[type_][2])
    before = sorted(folder.versions("orders"))
    code, out, err = call(folder, capsys, "set", "out", value)
    assert (code, out, err.split()[0]) == (1, "", "RVT-409")
    assert words in err
    assert lake.watermark_override(published) is None
    assert sorted(folder.versions("orders")) == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("set", "out", "1"), 1, "RVT-409 sinks/out.yaml:1: joint out: nothing is published yet"),
        (("reset", "out"), 1, "nothing is published yet"),
        (("set", "out"), 10, "Missing argument 'VALUE'"),
        (("set",), 10, "Missing argument 'JOINT'"),
        (("reset",), 10, "See `rivet-dagster watermark reset --help`"),
        (("reset", "out", "1"), 10, "unexpected extra argument (1)"),
        (("list", "uot"), 1, "RVT-306 no joint is named 'uot'; did you mean 'out'?"),
        (("list", "numbers"), 1, "RVT-306 'numbers' is not published"),
        (("set", "plain", "1"), 1, "RVT-306 'plain' has no `watermark_column`"),
        (("undo", "out"), 10, "undo"),
    ],
)
def test_wrong_commands_are_errors(folder, capsys, arguments, code, words):
    found, out, err = call(folder, capsys, *arguments)
    assert (found, out) == (code, "")
    assert words in err


def test_without_a_published_table_there_is_no_watermark(folder, capsys):
    assert call(folder, capsys, "list") == (0, "out: nothing is published\n", "")


def test_no_joint_has_a_watermark_column(folder, capsys):
    folder.write({"sinks/out.yaml": sink("orders", "numbers")})
    assert call(folder, capsys, "list") == (0, "no joint has a `watermark_column`\n", "")


def test_an_impossible_watermark_column_is_listed_last(folder, lake, capsys):
    other = {"mode": "incremental_append", "watermark_column": "at"}
    folder.write({"sinks/a.yaml": sink("a", "numbers", write_strategy={**other, "watermark_column": "att"})})
    folder.write({"sinks/z.yaml": sink("z", "numbers", write_strategy=other)})
    publish(lake, "boolean", [True], arrow=pa.bool_())
    publish(lake, "int", [1], "a")
    publish(lake, "int", [1], "z")
    code, out, err = call(folder, capsys, "list")
    assert (code, out) == (1, "z: at int, in the target 1\n")
    assert "RVT-511 sinks/a.yaml:1: joint a: the target has no column 'att'; did you mean 'at'?" in err
    assert "RVT-511 sinks/out.yaml:1: joint out: the column 'At' is of type boolean" in err


def test_an_override_ends_with_the_next_version(folder, lake, capsys):
    first = publish(lake, "int", [1])
    call(folder, capsys, "set", "out", "7")
    second = publish(lake, "int", [2])
    error = refused(lake.override_watermark, first, Override("8"))
    assert error.code == "RVT-405"
    assert lake.watermark_override(second) is None
    publish(lake, "int", [3])
    assert [name for name in folder.versions("orders") if "watermark" in name] == []


def test_files_of_a_killed_command_are_swept(folder, lake, monkeypatch):
    import os

    published = publish(lake, "int", [1])
    left = folder.root / "lake/.rivet/orders/.watermark-0123abcd"
    left.touch()
    os.utime(left, (0, 0))
    lake.sweep()
    assert not left.exists()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert refused(lake.override_watermark, published, Override("8")).code == "RVT-404"
    assert lake.watermark_override(published) is None
    assert not [name for name in folder.versions("orders") if "watermark" in name]
