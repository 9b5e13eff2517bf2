"""The queries of each kind of check in the plan."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.projects import compile_joints, source, sql

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.entry_points import CHECKS, plugins
from rivet_dagster.model.check_plan import ByColumns, ByQuery, CheckQueries, InOnePass, one_pass

Raw = dict[str, Any]

IN_ONE_PASS: list[tuple[Raw, str, str | None]] = [
    (
        {"type": "not_null", "columns": ["id", "place.city"]},
        "COUNT_IF(`id` IS NULL OR `place`.`city` IS NULL)",
        "SELECT * FROM `orders` WHERE `id` IS NULL OR `place`.`city` IS NULL LIMIT 3",
    ),
    ({"type": "row_count", "min": 1, "max": 9}, "GREATEST(0, 1 - COUNT(*), COUNT(*) - 9)", None),
    (
        {"type": "accepted_values", "column": "status", "values": ["a", "b'"]},
        "COUNT_IF(NOT `status` IN (:check_0_value_0, :check_0_value_1))",
        "SELECT * FROM `orders` WHERE NOT `status` IN (:value_0, :value_1) LIMIT 3",
    ),
    (
        {"type": "expression", "sql": "net > 0 -- so"},
        "COUNT_IF(NOT (\nnet > 0 -- so\n))",
        "SELECT * FROM `orders` WHERE NOT (\nnet > 0 -- so\n) LIMIT 3",
    ),
    (
        {"type": "freshness", "column": "at", "max_age": "24h"},
        "CASE WHEN MAX(`at`) >= CURRENT_TIMESTAMP() - MAKE_DT_INTERVAL(0, 0, 0, :check_0_max_age) THEN 0 ELSE 1 END",
        "SELECT MAX(`at`) AS `newest` FROM `orders`",
    ),
]

BY_QUERY: list[tuple[Raw, str, str]] = [
    (
        {"type": "unique", "columns": ["id", "day"]},
        "SELECT COALESCE(SUM(`rows_of_this_key` - 1), 0) AS `violations` FROM (SELECT COUNT(*) AS `rows_of_this_key` "
        "FROM `orders` WHERE NOT `id` IS NULL AND NOT `day` IS NULL GROUP BY `id`, `day` HAVING COUNT(*) > 1) "
        "AS duplicate",
        "SELECT COUNT(*) AS `rows_of_this_key`, `id`, `day` FROM `orders` WHERE NOT `id` IS NULL AND NOT `day` IS NULL "
        "GROUP BY `id`, `day` HAVING COUNT(*) > 1 ORDER BY `rows_of_this_key` DESC LIMIT 3",
    ),
    (
        {"type": "custom", "sql": "SELECT * FROM {{ this }} WHERE net < 0; -- never"},
        "SELECT COUNT(*) AS `violations` FROM (\nSELECT * FROM orders WHERE net < 0\n) AS `violation`",
        "SELECT * FROM (\nSELECT * FROM orders WHERE net < 0\n) AS `violation` LIMIT 3",
    ),
    (
        {"type": "relationship", "column": "customer", "to": "customers.id"},
        "SELECT COUNT(*) AS `violations` FROM `orders` AS judged WHERE NOT judged.`customer` IS NULL AND NOT EXISTS"
        "(SELECT 1 FROM `customers` AS referenced WHERE referenced.`id` = judged.`customer`)",
        "SELECT * FROM `orders` AS judged WHERE NOT judged.`customer` IS NULL AND NOT EXISTS"
        "(SELECT 1 FROM `customers` AS referenced WHERE referenced.`id` = judged.`customer`) LIMIT 3",
    ),
]


def compiled(*checks: Raw, **fields: Any) -> CompiledAssembly:
    judged = source("orders", quality={"assertions": [{"samples": 3, **check} for check in checks]}, **fields)
    return compile_joints(judged, sql("customers", "SELECT 1 AS id"), sql("out", "SELECT * FROM orders")).raise_errors()


def queries(*checks: Raw, **fields: Any) -> list[CheckQueries]:
    return [check.queries for check in compiled(*checks, **fields).joint("orders").checks]


@pytest.mark.parametrize(("check", "item", "samples"), IN_ONE_PASS, ids=lambda value: str(value)[:30])
def test_kinds_that_share_one_pass(check: Raw, item: str, samples: str | None) -> None:
    (found,) = queries(check)
    assert isinstance(found.counting, InOnePass)
    assert (found.counting.item, found.counting.name) == (f"{item} AS `check_0`", "check_0")
    assert (found.samples.sql if found.samples is not None else None) == samples
    assert all(f":{name}" in item for name in found.counting.parameters)


@pytest.mark.parametrize(("check", "query", "samples"), BY_QUERY, ids=lambda value: str(value)[:30])
def test_kinds_with_a_query_of_their_own(check: Raw, query: str, samples: str) -> None:
    (found,) = queries(check)
    assert isinstance(found.counting, ByQuery)
    assert found.samples is not None
    assert (found.counting.query.sql, found.shown, found.samples.sql) == (query, query, samples)


def test_a_schema_is_compared_without_a_query() -> None:
    (found,) = queries({"type": "schema", "columns": {"id": "LONG", "days": "array<DATE>"}}, row_values=False)
    assert found.counting == ByColumns(expected=(("id", "bigint"), ("days", "array<date>")))
    assert (found.shown, found.samples, found.proof) == ("SELECT * FROM `orders`", None, None)


def test_every_kind_is_covered_here() -> None:
    here = {check["type"] for cases in (IN_ONE_PASS, BY_QUERY) for check, *_ in cases}
    assert here | {"schema"} == set(plugins(CHECKS))


def test_the_aggregates_of_a_joint_fit_in_one_pass() -> None:
    found = [one.counting for one in queries(*[check for check, *_ in IN_ONE_PASS])]
    passed = one_pass("`orders`", [one for one in found if isinstance(one, InOnePass)])
    assert [f" AS `check_{number}`" in passed.sql for number in range(6)] == [True] * 5 + [False]
    assert passed.parameters == {
        "check_2_value_0": "a", "check_2_value_1": "b'", "check_4_max_age": 86400.0,
    }  # fmt: skip


def test_no_samples_are_planned_without_row_values() -> None:
    checks = ({"type": "not_null", "columns": ["id"]}, {"type": "schema", "columns": {"id": "INT"}})
    hidden, schema = compiled(*checks, row_values=False).joint("orders").checks
    assert (hidden.samples, hidden.queries.samples, schema.samples) == (0, None, 3)
    (none,) = queries({"type": "unique", "columns": ["id"], "samples": 0})
    assert none.samples is None


def test_a_stored_plan_needs_no_kinds(tmp_path: Path) -> None:
    plan = compiled(*[check for check, *_ in (*IN_ONE_PASS, *BY_QUERY)])
    (tmp_path / "plan.json").write_text(plan.to_json())
    program = f"""
import sys
from pathlib import Path
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.execution.quality.verdicts import proven
from rivet_dagster.model.storage import Statistics
plan = CompiledAssembly.from_json(Path({str(tmp_path / "plan.json")!r}).read_text())
assert len(plan.joint("orders").checks) == 8
proven("orders", plan.joint("orders").checks, Statistics(3, 0))
print(*[name for name in sys.modules if name.startswith("rivet_dagster.checks")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    assert CompiledAssembly.from_json(plan.to_json()) == plan


def test_a_row_count_beyond_the_range_of_an_engine() -> None:
    (found,) = queries({"type": "row_count", "min": 10**40, "max": 10**50})
    assert isinstance(found.counting, InOnePass)
    assert f"{2**63 - 1} - COUNT(*)" in found.counting.item
