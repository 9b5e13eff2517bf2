"""``compile --analyze``: Spark's analyzer judges every query of a project, and reads nothing."""

from __future__ import annotations

import json

import pytest
from support.folders import sink, source

from rivet_dagster.cli.main import main
from rivet_dagster.execution.analysis import analyze_plan

SHOP = {
    "data/orders.csv": "id,amount,paid_at\n1,2.5,2026-01-01 00:00:00\n",
    "sources/orders.yaml": source("orders.csv", "id BIGINT, amount DECIMAL(10, 2), paid_at TIMESTAMP"),
    "sources/late.yaml": {
        **source("orders.csv", "id BIGINT, amount DECIMAL(10, 2), paid_at TIMESTAMP"),
        "columns": ["id", {"day": "to_date(paid_at)"}],
        "filter": "amount > 2",
    },
    "joints/totals.sql": "-- rivet:assert: expression(sql='total >= 0')\n-- rivet:assert: unique(id)\n"
    "SELECT id, sum(amount) AS total, max_by(map('at', paid_at), amount) AS last FROM orders GROUP BY id",
    "joints/days.sql": "SELECT id, day, date_add(day, 1) AS next FROM late",
    "joints/newer.sql": "SELECT * FROM orders {% if is_incremental() %} WHERE paid_at > {{ watermark_value }}"
    " AND id NOT IN (SELECT id FROM {{ this }}) {% endif %}",
    "joints/made.py": "def transform(days):\n    return days.to_arrow()\n",
    "sinks/out.yaml": sink("out", "totals"),
    "sinks/days_out.yaml": sink("days_out", "made"),
    "sinks/newer_out.yaml": {
        **sink("newer_out", "newer"),
        "write_strategy": {"mode": "merge", "key_columns": ["id"], "watermark_column": "paid_at"},
    },
}
WRONG = {
    "joints/totals.sql": "-- rivet:assert: expression(sql='nowhere(total) >= 0')\n-- rivet:assert: unique(id)\n"
    "SELECT id, sum(amount) AS total\nFROM orders\nGROUP BY id",
    "joints/first.sql": "SELECT id,\n  no_such_function(amount) AS x\nFROM orders",
    "joints/second.sql": "SELECT x FROM first",
    "joints/third.sql": "SELECT id,\n\n amount + paid_at AS y FROM orders",
    "joints/newer.sql": "SELECT * FROM orders\n{% if is_incremental() %} WHERE array(id) > {{ watermark_value }} "
    "{% endif %}",
    "sinks/firsts.yaml": sink("firsts", "second"),
    "sinks/thirds.yaml": sink("thirds", "third"),
}


def test_schemas_have_sparks_types_and_nothing_is_read(project, sql_executions):
    shop = project(SHOP)
    sql_executions.since()
    plan = analyze_plan(shop.assembly, shop.runtime).raise_errors()
    assert sql_executions.since() == 0
    types = {joint.name: {field.name: field.type for field in joint.schema or ()} for joint in plan.joints}
    assert types["totals"] == {"id": "bigint", "total": "decimal(20,2)", "last": "map<string,timestamp>"}
    assert types["out"] == types["totals"]
    assert types["days"] == {"id": "bigint", "day": "date", "next": "date"}
    confidence = {joint.name: joint.schema_confidence for joint in plan.joints}
    assert {name for name, value in confidence.items() if value == "analyzed"} == set(confidence) - {"made", "days_out"}
    warnings = [warning for warning in plan.warnings if warning not in shop.assembly.warnings]
    (warning,) = warnings
    assert (warning.code, warning.joint, "made" in warning.message) == ("RVT-331", "days_out", True)
    assert plan.fused_groups == shop.assembly.fused_groups


def test_all_errors_are_told_at_once_each_at_its_line(project, capfd):
    shop = project({**SHOP, **WRONG})
    assert shop.assembly.success  # what follows only Spark knows
    code = main(["compile", "--analyze", "--format", "json", "-p", str(shop.root)])
    told = json.loads(capfd.readouterr().out)
    found = {(error["joint"], error["file"], error["line"]): error["message"] for error in told["errors"]}
    assert (code, told["success"], told["fused_groups"]) == (1, False, [])
    assert set(found) == {
        ("totals", "joints/totals.sql", 1),
        ("first", "joints/first.sql", 2),
        ("third", "joints/third.sql", 3),
        ("newer", "joints/newer.sql", 2),
    }
    assert "the check 'expression': [UNRESOLVED_ROUTINE]" in found["totals", "joints/totals.sql", 1]
    assert "no_such_function" in found["first", "joints/first.sql", 2]
    assert {warning["joint"] for warning in told["warnings"]} == {"days_out"}  # `second` waits for `first`


def test_a_source_whose_columns_nobody_knows_is_a_warning(project, capfd):
    shop = project({**SHOP, "sources/gone.yaml": {"type": "source", "catalog": "raw", "table": "gone.csv"}})
    shop.write({"joints/read.sql": "SELECT * FROM gone", "sinks/read_out.yaml": sink("read_out", "read")})
    assert main(["compile", "--analyze", "-p", str(shop.root)]) == 0
    err = capfd.readouterr().err
    assert "RVT-331 joints/read.sql:1: joint read: it was not judged, since the columns of gone are not known" in err


def test_the_errors_of_the_compiler_come_first(project, capfd):
    shop = project({**SHOP, "joints/totals.sql": "SELECT * FROM ordrs"})
    assert main(["compile", "--analyze", "-p", str(shop.root)]) == 1
    assert "RVT-302" in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["daily", "static"])
def test_parameters_of_partitions_are_bound(project, kind):
    partitions = {"daily": {"type": "daily", "column": "day", "start": "2026-01-01"}}
    partitions["static"] = {"type": "static", "column": "day", "values": ["2026-01-01"]}
    condition = {
        "daily": "paid_at >= :partition_start",
        "static": "array_contains(:partition_keys, CAST(id AS STRING))",
    }
    shop = project(
        {
            **SHOP,
            "joints/daily.yaml": {
                "type": "sql",
                "sql": f"SELECT id, to_date(paid_at) AS day FROM orders WHERE {condition[kind]}",
                "partitions": partitions[kind],
            },
            "sinks/daily_out.yaml": {**sink("daily_out", "daily"), "partitions": partitions[kind]},
        }
    )
    plan = analyze_plan(shop.assembly, shop.runtime).raise_errors()
    assert [field.type for field in plan.joint("daily_out").schema] == ["bigint", "date"]
