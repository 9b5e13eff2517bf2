"""Checks that need more than single rows: custom queries, schemas, freshness."""

from typing import Any

import pytest
import sqlglot
from support.folders import ProjectFolder, sink, source
from support.iceberg import PACKAGES
from support.iceberg_folders import IcebergFolder
from support.maven import jars

from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.quality.judging import check_source
from rivet_dagster.execution.results import CheckResult


def check_results(project: Any, query: str, *checks: dict[str, Any], **files: str) -> tuple[CheckResult, ...]:
    """Return the check results on a query's rows; all are warnings, so that all of them are evaluated."""
    warnings = [{"severity": "warn", **check} for check in checks]
    folder: ProjectFolder = project(
        {"joints/rows.sql": query, "sinks/out.yaml": sink("out", "rows", assertions=warnings)}
    )
    return folder.write(files).run("out").checks


def test_a_custom_check_counts_and_shows_the_rows_of_its_query(project):
    query = "SELECT id, id % 3 AS k FROM range(30)"
    few, none = check_results(
        project, query,
        {"type": "custom", "name": "crowded", "samples": 2, "sql": "SELECT k, count(*) AS n FROM out GROUP BY k"},
        {"type": "custom", "sql": "SELECT k FROM {{ this }} GROUP BY k HAVING count(*) <> 10"},
    )  # fmt: skip
    assert (few.check.name, few.passed, few.violations) == ("crowded", False, 3)
    assert [row["n"] for row in few.samples] == [10, 10]
    assert (none.passed, none.violations, none.samples) == (True, 0, ())
    assert "SELECT k, count(*) AS n FROM out GROUP BY k" in few.sql


def test_a_query_that_fails_is_a_failed_check(project):
    wrong, right = check_results(
        project, "SELECT 1 AS id",
        {"type": "custom", "sql": "SELECT nope(id) FROM out"},
        {"type": "custom", "sql": "SELECT * FROM out WHERE id > 1"},
    )  # fmt: skip
    assert (wrong.passed, wrong.violations) == (False, None)
    assert "nope" in wrong.error
    assert right.passed


SCHEMA = "SELECT 1L AS id, 'a' AS Name, array(DATE '2026-01-01') AS days, 1.5BD AS net"


@pytest.mark.parametrize(
    ("columns", "differing"),
    [
        ({"id": "BIGINT", "name": "STRING", "days": "array<DATE>", "net": "DECIMAL(2, 1)"}, []),
        ({"net": "dec(2,1)", "NAME": "varchar(9)", "days": "ARRAY<date>", "ID": "long"}, []),
        ({"id": "INT", "name": "STRING", "days": "ARRAY<DATE>", "net": "DECIMAL(2, 1)"}, [("id", "int", "bigint")]),
        (
            {"id": "BIGINT", "label": "STRING", "days": "ARRAY<DATE>"},
            [("label", "string", None), ("Name", None, "string"), ("net", None, "decimal(2,1)")],
        ),
    ],
)
def test_a_schema_check_names_each_column_that_differs(project, columns, differing):
    (found,) = check_results(project, SCHEMA, {"type": "schema", "columns": columns})
    assert [(row["column"], row["expected"], row["found"]) for row in found.samples] == differing
    assert (found.violations, found.passed) == (len(differing), not differing)


def test_a_schema_check_reads_no_row(project, sql_executions):
    folder = project({
        "joints/rows.sql": SCHEMA,
        "sinks/out.yaml": sink("out", "rows", assertions=[{"type": "schema", "columns": {"id": "INT"}}]),
    })  # fmt: skip
    sql_executions.since()
    assert folder.run("out").gate_failed
    assert sql_executions.since() == 1  # the write
    assert folder.versions("out") == []


@pytest.mark.nightly(but=3)
@pytest.mark.parametrize(
    ("query", "fresh"),
    [
        ("SELECT now() - INTERVAL 2 HOURS AS at", True),
        ("SELECT now() - INTERVAL 4 HOURS AS at", False),
        ("SELECT explode(array(now() - INTERVAL 9 DAYS, now() - INTERVAL 1 HOUR, NULL)) AS at", True),
        ("SELECT localtimestamp() - INTERVAL 2 HOURS AS at", True),
        ("SELECT localtimestamp() - INTERVAL 4 HOURS AS at", False),
        ("SELECT current_date() + 1 AS at", True),
        ("SELECT current_date() - 1 AS at", False),
        ("SELECT CAST(NULL AS TIMESTAMP) AS at", False),
        ("SELECT now() AS at WHERE false", False),
    ],
)
def test_freshness_uses_the_newest_row(project, query, fresh):
    (found,) = check_results(project, query, {"type": "freshness", "column": "at", "max_age": "3h"})
    assert found.error is None
    assert (found.passed, found.violations) == (fresh, int(not fresh))
    assert len(found.samples) == int(not fresh)


def executions(project: Any, sql_executions: Any, query: str, *checks: dict[str, Any]) -> int:
    """Return the number of queries of a run whose checks pass."""
    folder = project({"joints/rows.sql": query, "sinks/out.yaml": sink("out", "rows", assertions=[*checks])})
    sql_executions.since()
    assert folder.run("out").published is not None
    return int(sql_executions.since())


FRESH = {"type": "freshness", "column": "at", "max_age": "1d"}


def test_freshness_shares_the_pass_of_other_checks(project, sql_executions):
    in_summer = {"type": "expression", "sql": "year(at) > 2000"}
    # The statistics of storage do not give the age of a timestamp without time zone.
    query = "SELECT localtimestamp() AS at"
    assert executions(project, sql_executions, query, FRESH, in_summer) == 2  # the write and one pass


@pytest.mark.parametrize("catalog", ["filesystem", "iceberg"])
def test_checks_proven_by_statistics_read_no_rows(project, sql_executions, tmp_path, catalog):
    if catalog == "iceberg":
        jars(*PACKAGES)
    made = project if catalog == "filesystem" else lambda files: IcebergFolder(tmp_path / "project", files)
    query = """
    SELECT id, now() AS at, current_date() AS day, CAST(id AS DECIMAL(9, 2)) AS price, 'open' AS status,
           named_struct('city', 'Bonn') AS place, id % 3 AS kind
    FROM range(10)
    """
    checks = (
        FRESH,
        {"type": "row_count", "min": 10, "max": 10},
        {"type": "not_null", "columns": ["place.city"]},
        {"type": "accepted_values", "column": "status", "values": ["open", "paid"]},
        {"type": "accepted_values", "column": "kind", "values": [0, 1, 2]},
        {"type": "expression", "name": "prices", "sql": "price >= 0 AND 9.5 > price"},
        {"type": "expression", "name": "days", "sql": "day > DATE '2020-01-31' AND day IS NOT NULL"},
    )
    assert executions(made, sql_executions, query, *checks) == 1  # the write


EVERY_KIND = (
    {"type": "not_null", "columns": ["gap"]},
    {"type": "unique", "columns": ["k"]},
    {"type": "row_count", "min": 11},
    {"type": "accepted_values", "column": "k", "values": [0, 1]},
    {"type": "expression", "sql": "id < 9 -- all but one"},
    {"type": "custom", "sql": "SELECT * FROM {{ this }} WHERE id > 7"},
    {"type": "schema", "columns": {"id": "BIGINT", "k": "STRING", "gap": "BIGINT"}},
    {"type": "freshness", "column": "gap", "max_age": "1d"},
    {"type": "relationship", "column": "id", "to": "customers.id"},
    {"type": "expression", "sql": "k < 2", "timeout": "1h"},
)


def test_nothing_is_parsed_while_a_group_runs(project, monkeypatch):
    warnings = [{**check, "severity": "warn"} for check in EVERY_KIND]
    folder = project({
        "joints/customers.sql": "SELECT 1L AS id",
        "joints/rows.sql": "SELECT id, id % 3 AS k, nullif(id, 4) AS gap FROM range(10)",
        "sinks/out.yaml": sink("out", "rows", assertions=warnings),
    })  # fmt: skip
    folder.run("customers")
    runtime = folder.runtime  # compiles

    def parsed(*_: Any, **__: Any) -> Any:
        raise AssertionError("SQL is parsed or generated by a run")

    for made in (sqlglot.Parser, sqlglot.Tokenizer, sqlglot.Generator):
        for kind in (made, *_subclasses(made)):
            monkeypatch.setattr(kind, "__init__", parsed)
    with pytest.raises(AssertionError):
        sqlglot.parse_one("SELECT 1")
    checks = run_group(runtime, "out", ("rows", "out"), "a run").checks
    assert [check.violations for check in checks] == [1, 7, 1, 3, 1, 2, 1, None, 9, 3]
    assert all(len(check.samples) > 0 for check in checks if check.check.kind not in ("row_count", "freshness"))


def _subclasses(kind: type) -> list[type]:
    return [one for direct in kind.__subclasses__() for one in (direct, *_subclasses(direct))]


def test_sql_files_in_quality_are_checks(project):
    folder = project({
        "joints/rows.sql": "SELECT id FROM range(3)",
        "sinks/out.yaml": sink("out", "rows"),
        "quality/out/none_above_one.sql": (
            "-- @severity: error\n-- @description: No id above one.\n-- @tags: ids, small\n"
            "-- @remediation: Look at the range.\nSELECT * FROM out WHERE id > 1;\n"
        ),
        "quality/out/some.sql": "-- @severity: warn\nSELECT * FROM {{ this }}\n",
    })  # fmt: skip
    result = folder.run("out")
    assert result.published is None
    above, some = result.checks
    assert (above.check.name, above.check.severity, above.check.description) == (
        "none_above_one", "error", "No id above one.",
    )  # fmt: skip
    assert (dict(above.check.tags), above.check.remediation) == ({"ids": "", "small": ""}, "Look at the range.")
    assert (above.violations, above.samples, above.blocks) == (1, ({"id": 2},), True)
    assert (some.check.severity, some.violations, some.blocks) == ("warn", 3, False)


CUSTOMERS = "SELECT * FROM VALUES (1, 'ada'), (2, 'bob'), (NULL, 'eve') AS t (id, name)"
ORDERS = "SELECT id, IF(id % 4 = 3, NULL, id % 4) AS customer FROM range(12)"


def test_a_relationship_counts_the_rows_without_a_counterpart(project):
    checks = [
        {"type": "relationship", "column": "customer", "to": "customers.id", "samples": 2},
        {"type": "relationship", "column": "Customer", "to": "out.id"},
        {"type": "relationship", "column": "id", "to": "out.ID"},
        {
            "type": "custom",
            "sql": "SELECT o.id FROM {{ this }} o JOIN customers c ON o.customer = c.id WHERE name = 'bob'",
        },
    ]
    folder = project({
        "joints/customers.sql": CUSTOMERS,
        "joints/orders.sql": ORDERS,
        "sinks/out.yaml": sink("out", "orders", assertions=[{**check, "severity": "warn"} for check in checks]),
    })  # fmt: skip
    folder.run("customers")
    missing, itself, own, custom = folder.run("out").checks
    orders = [(n, None if n % 4 == 3 else n % 4) for n in range(12)]
    assert missing.violations == len([c for _, c in orders if c is not None and c not in (1, 2)]) == 3
    assert [row["customer"] for row in missing.samples] == [0, 0]
    assert (itself.violations, own.violations, custom.violations) == (0, 0, 3)
    assert "customers" in missing.sql


def test_a_check_with_a_missing_reference_fails_and_others_still_run(project):
    checks = [
        {"type": "relationship", "column": "customer", "to": "customers.id"},
        {"type": "relationship", "column": "customer.nope", "to": "out.id"},
        {"type": "custom", "sql": "SELECT * FROM {{ this }} JOIN customers USING (id)"},
        {"type": "not_null", "columns": ["id.nope"]},
        {"type": "not_null", "columns": ["customer"]},
        {"type": "unique", "columns": ["id"]},
    ]
    folder = project({
        "joints/customers.sql": CUSTOMERS,
        "joints/orders.sql": ORDERS,
        "sinks/out.yaml": sink("out", "orders", assertions=checks),
    })  # fmt: skip
    result = folder.run("out")
    assert result.published is None
    gone, unknown, custom, nope, nulls, unique = result.checks
    for check in (gone, custom):
        assert (check.passed, check.violations) == (False, None)
        assert "'customers' has never been materialized" in check.error
    assert "customer" in unknown.error
    assert "complex type" in nope.error
    assert (nulls.violations, unique.passed) == (3, True)


def test_a_check_of_a_source_reads_a_stored_joint(project):
    folder = project({
        "data/orders.csv": "id,customer\n1,1\n2,7\n",
        "sources/orders.yaml": {
            **source("orders", "id INT, customer INT"),
            "quality": {"assertions": [{"type": "relationship", "column": "customer", "to": "customers.id"}]},
        },
        "joints/customers.sql": CUSTOMERS,
        "joints/totals.sql": "SELECT * FROM orders",
    })  # fmt: skip
    folder.run("customers")
    (verdict,) = check_source(folder.runtime, "orders")
    assert (verdict.violations, verdict.samples) == (1, ({"id": 2, "customer": 7},))
