"""The check `evaluation_errors`, and the error of a run that fails because rows could not be evaluated."""

from __future__ import annotations

import json
import pickle
from types import SimpleNamespace

import pyarrow as pa
import pytest
from support.duckdb_engine import DuckDBEngine

from rivet_dagster.catalogs.capabilities.targets import HasErrorTables
from rivet_dagster.catalogs.parquet_rows import no_errors
from rivet_dagster.compiler.joints import SinkJoint
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.quality.row_errors import errors_result, published_errors, published_result
from rivet_dagster.execution.results import RowErrorCounts, SiteErrors
from rivet_dagster.execution.row_error import RowError, SiteDiagnostic, error_without_values
from rivet_dagster.model.check_plan import ByErrors, CheckQueries, CompiledCheck
from rivet_dagster.model.relations import ArrowRows
from rivet_dagster.model.row_errors import ErrorTable, MaxErrors
from rivet_dagster.model.storage import Published, Record, Statistics

JOINT = SinkJoint(
    name="out", engine="spark", upstream=(), group="out", asset_group="default", code_version="1",
    catalog="c", table="t",
)  # fmt: skip
CAST = SiteErrors(
    "CAST_INVALID_INPUT", "paid", "joints/paid.sql", 4, "CAST(amount AS INT)", 3, "'x' is no INT",
    ({"id": 1, "amount": "x"}, {"id": 2, "amount": "y"}),
)  # fmt: skip
DIVIDE = SiteErrors("DIVIDE_BY_ZERO", "net", None, None, "a / b", 1, "", ({"a": 1, "b": 0},))
ERRORS = RowErrorCounts("t__errors", 4, 9, (CAST, DIVIDE))


def check(limit: MaxErrors | None = None, samples: int = 10) -> CompiledCheck:
    queries = CheckQueries(counting=ByErrors(max_errors=limit), shown="SELECT * FROM `t__errors`")
    severity = "error" if limit is not None else "warn"
    return CompiledCheck(
        kind="evaluation_errors", name="evaluation_errors", phase="audit", severity=severity, samples=samples,
        queries=queries,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "rows", "passed", "blocks"),
    [
        (None, 100, False, False),
        (MaxErrors(count=4), 0, True, False),
        (MaxErrors(count=3), 10_000, False, True),
        (MaxErrors(percent=4.0), 96, True, False),
        (MaxErrors(percent=4.0), 95, False, True),
    ],
)
def test_the_verdict(limit, rows, passed, blocks):
    result = errors_result(JOINT, check(limit), ERRORS, rows)
    assert (result.passed, result.blocks, result.violations) == (passed, blocks, 4)
    assert result.errors == ERRORS


@pytest.mark.parametrize("limit", [None, MaxErrors(count=0), MaxErrors(percent=0.0)])
def test_without_errors_it_passes(limit):
    result = errors_result(JOINT, check(limit), RowErrorCounts("t__errors", 0, 5), 0)
    assert (result.passed, result.violations, result.samples) == (True, 0, ())


def test_samples_are_of_each_site_in_turn():
    samples = errors_result(JOINT, check(samples=2), ERRORS, 100).samples
    assert [(sample["condition"], json.loads(sample["row"])) for sample in samples] == [
        ("CAST_INVALID_INPUT", {"id": 1, "amount": "x"}),
        ("DIVIDE_BY_ZERO", {"a": 1, "b": 0}),
    ]
    assert [sample["place"] for sample in samples] == ["joints/paid.sql:4", ""]


def test_without_samples_no_value_of_a_row_is_shown():
    result = errors_result(JOINT, check(samples=0), ERRORS, 100)
    assert result.samples == ()
    assert [(site.samples, site.message, site.count) for site in result.errors.sites] == [((), "", 3), ((), "", 1)]


# --- of a published version ---


def record(code: str, line: int | None, row: str, version: str) -> dict[str, object]:
    values = {"joint": "paid", "code": code, "expression": "x", "file": "a.sql", "line": line, "message": f"of {row}"}
    return values | {"row": row, "key": None, "run_id": "r", "version": version, "found_at": None}


RECORDS = [
    *(record("CAST_INVALID_INPUT", 4, json.dumps({"id": n}), "2") for n in range(12)),
    record("DIVIDE_BY_ZERO", None, "no json", "2"),
    record("DIVIDE_BY_ZERO", 4, '{"id": 1}', "1"),
]
SCHEMA = no_errors().schema
PUBLISHED = Published("lake", "t", "2", "", Statistics(100, 0), 0, record=Record(30, 57))


def runtime(records: list[dict[str, object]] | None) -> SimpleNamespace:
    """Return a runtime whose one catalog has these errors of each version."""

    class Stub(HasErrorTables):
        def __init__(self) -> None: ...

        def errors_of(self, published):
            table = None if records is None else pa.Table.from_pylist(records, SCHEMA)
            return None if table is None else ArrowRows(SCHEMA, table.to_reader)

    Stub.__abstractmethods__ = frozenset()
    return SimpleNamespace(catalog=lambda _: Stub())


def session():
    return DuckDBEngine(None).session()


def test_errors_of_a_published_version():
    errors = published_errors(runtime(RECORDS), PUBLISHED, ErrorTable("t__errors"), session())
    assert (errors.table, errors.count, errors.total) == ("t__errors", 13, 14)
    cast, divide = errors.sites
    assert (cast.condition, cast.joint, cast.file, cast.line, cast.count) == (
        "CAST_INVALID_INPUT",
        "paid",
        "a.sql",
        4,
        12,
    )
    assert len(cast.samples) == 10
    assert {"id": 0} in cast.samples
    assert (divide.condition, divide.line, divide.count, divide.samples) == (
        "DIVIDE_BY_ZERO",
        None,
        1,
        ({"row": "no json"},),
    )


@pytest.mark.parametrize(("percent", "passed"), [(13.0, True), (12.9, False)])
def test_it_is_judged_as_its_run_did(percent, passed):
    declared = check(MaxErrors(percent=percent))
    args = runtime(RECORDS), JOINT, declared, PUBLISHED, ErrorTable("t__errors"), session()
    assert published_result(*args).passed is passed  # 13 errors beside 87 rows that were written


def test_a_version_without_an_error_table_has_no_errors():
    for records in (None, []):
        errors = published_errors(runtime(records), PUBLISHED, ErrorTable("t__errors"), session())
        assert errors == RowErrorCounts("t__errors", 0, 0)


# --- the error ---


def test_the_error_tells_all_sites():
    error = RowError.at((CAST, DIVIDE), [Diagnostic("RVT-503", "no more is known", "net")])
    assert [(d.code, d.joint, d.file, d.line) for d in error.diagnostics] == [
        ("RVT-520", "paid", "joints/paid.sql", 4), ("RVT-520", "net", None, None), ("RVT-503", "net", None, None),
    ]  # fmt: skip
    text = "RVT-520 joints/paid.sql:4: joint paid: 3 rows could not be evaluated: [CAST_INVALID_INPUT] in CAST(amount"
    assert str(error).startswith(text)
    assert "1 row could not be evaluated: [DIVIDE_BY_ZERO] in a / b" in str(error)
    assert "RVT-503 joint net: no more is known" in str(error)
    assert (error.code, error.exit_code, error.is_transient) == ("RVT-520", 1, False)


def test_its_entry_in_json_has_the_fields_of_the_site():
    (entry,) = [diagnostic.to_dict() for diagnostic in RowError.at([CAST]).diagnostics]
    assert entry == {
        "code": "RVT-520",
        "message": "3 rows could not be evaluated: [CAST_INVALID_INPUT] in CAST(amount AS INT): 'x' is no INT",
        "joint": "paid",
        "file": "joints/paid.sql",
        "line": 4,
        "remediation": "Correct the data or the expressions, or publish the other rows with `on_error: quarantine`.",
        "condition": "CAST_INVALID_INPUT",
        "expression": "CAST(amount AS INT)",
        "count": 3,
        "samples": [{"id": 1, "amount": "x"}, {"id": 2, "amount": "y"}],
    }


def test_it_crosses_processes():
    error = RowError.at((CAST,), [Diagnostic("RVT-503", "more")])
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, RowError)
    assert (again.sites, again.diagnostics, str(again)) == (error.sites, error.diagnostics, str(error))


def test_without_values_of_rows_it_has_no_samples():
    spark = Diagnostic("RVT-503", "[CAST_INVALID_INPUT] The value 'x' cannot be cast")
    shown = error_without_values(RowError.at((CAST,), [spark]))
    assert isinstance(shown, RowError)
    assert shown.sites == (CAST.without_values(),)
    site, other = shown.diagnostics
    assert isinstance(site, SiteDiagnostic)
    assert (site.count, site.samples) == (3, ())
    assert other.message.startswith("[CAST_INVALID_INPUT]; the rest")
    assert "'x'" not in repr(vars(site)) + str(shown)


def test_nor_has_the_engines_own_error_of_a_row_that_is_told_alone():
    told = RivetError("RVT-520", "[CAST_INVALID_INPUT] The value 'ann@example.com' cannot be cast", joint="paid")
    assert "ann@example.com" not in str(error_without_values(told))
    assert "[CAST_INVALID_INPUT]" in str(error_without_values(told))
