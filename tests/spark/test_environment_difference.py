"""The difference of an environment from its base, after runs in both, by ``diff``."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any
from uuid import uuid4

import pytest
from support.folders import PROFILES, ProjectFolder, sink, source
from support.torture import at_length

from rivet_dagster.cli.main import main
from rivet_dagster.execution.environments import use_environment
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime

ORDERS = """id,customer,net
1,ann,10
2,bob,20
3,cho,30
4,,40
"""
UNIQUE_ID = {"type": "unique", "columns": ["id"], "severity": "warn"}
NAMED = {"type": "not_null", "columns": ["customer"], "severity": "warn"}
SHOP = {
    "data/orders.csv": ORDERS,
    "sources/orders.yaml": source("orders", "id INT, customer STRING, net DOUBLE"),
    "joints/paid.sql": "-- rivet:eager: true\nSELECT id, customer, net FROM orders",
    "joints/rich.sql": "SELECT id, customer, net FROM paid WHERE net >= 20",
    "joints/total.sql": "SELECT sum(net) AS net FROM paid",
    "joints/days.sql": "SELECT DATE '2026-01-01' AS day",
    "sinks/out.yaml": sink("out", "rich", assertions=[UNIQUE_ID, NAMED]),
    "sinks/sum.yaml": sink("sum", "total"),
    "sinks/calendar.yaml": sink("calendar", "days"),
}


def run_in(folder: ProjectFolder, environment: str | None = None, *groups: str) -> None:
    """Run all groups, or some, in an environment or in the base."""
    runtime = Runtime(folder.assembly, folder.root, environment=environment)
    use_environment(runtime)
    for name in groups or folder.assembly.execution_order:
        group = folder.assembly.group(name)
        if group.target is not None:
            run_group(runtime, name, group.joints, f"{uuid4()}/{name}")


@pytest.fixture
def diff(capsys):
    """Return a function that runs the command for the environment ``try`` and returns its JSON, by joint."""

    def run(folder: ProjectFolder, *joints: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["-p", str(folder.root), "diff", *joints, "--environment", "try", "--format", "json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert set(data) == {"environment", "tables"}
        assert data["environment"] == "try"
        return {table["joint"]: table for table in data["tables"]}

    return run


NO_ROWS = {"added": 0, "removed": 0, "changed": 0}
NO_SAMPLES: dict[str, list[Any]] = {"added": [], "removed": [], "changed": []}


@pytest.mark.nightly
def test_the_same_logic_on_the_same_data(project, diff):
    shop = project(SHOP)
    run_in(shop)
    run_in(shop, "try")
    found = diff(shop)
    assert list(found) == [name for name in shop.assembly.execution_order if name in found]
    assert set(found) == {"paid", "out", "sum", "calendar"}
    for joint, table in found.items():
        assert table == {
            "joint": joint,
            "changed": "none",
            "schema": [],
            "rows": NO_ROWS,
            "columns": {},
            "samples": NO_SAMPLES,
            "checks": [],
        }


def test_own_logic_rows_columns_and_verdicts(project, diff):
    shop = project(SHOP)
    run_in(shop)
    shop.write(
        {
            "joints/paid.sql": "-- rivet:eager: true\n"
            "SELECT id, customer, CASE id WHEN 2 THEN 21 ELSE net END AS net, id = 1 AS first FROM orders WHERE id < 4"
            " UNION ALL SELECT 3, 'cho', 31, false",
            "joints/rich.sql": "SELECT id, customer, net FROM paid WHERE net >= 10",
        }
    )
    run_in(shop, "try", "paid", "out", "sum")
    found = diff(shop)
    assert {joint: table["changed"] for joint, table in found.items()} == {
        "paid": "own",
        "out": "upstream",
        "sum": "upstream",
    }
    assert found["paid"]["schema"] == [
        {"column": "first", "change": "added", "before": None, "after": "boolean", "breaks": []}
    ]
    assert found["out"] == {
        "joint": "out",
        "changed": "upstream",
        "schema": [],
        "rows": {"added": 2, "removed": 1, "changed": 1},
        "columns": {"net": 1},
        "samples": {
            "added": [{"id": 1, "customer": "ann", "net": 10.0}, {"id": 3, "customer": "cho", "net": 31.0}],
            "removed": [{"id": 4, "customer": None, "net": 40.0}],
            "changed": [
                {"old": {"id": 2, "customer": "bob", "net": 20.0}, "new": {"id": 2, "customer": "bob", "net": 21.0}}
            ],
        },
        "checks": [
            {
                "check": "unique_id",
                "kind": "unique",
                "phase": "assertion",
                "severity": "warn",
                "before": "passed",
                "after": "warned",
                "violations_before": 0,
                "violations_after": 1,
            },
            {
                "check": "not_null_customer",
                "kind": "not_null",
                "phase": "assertion",
                "severity": "warn",
                "before": "warned",
                "after": "passed",
                "violations_before": 1,
                "violations_after": 0,
            },
        ],
    }
    # A multiset: the sum has no key.
    assert (found["sum"]["rows"], found["sum"]["columns"]) == ({"added": 1, "removed": 1, "changed": 0}, {})


def test_a_dropped_column_and_the_joints_that_read_it(project, diff):
    """If the compiler knew the columns, the readers would not compile."""
    shop = project(
        SHOP
        | {
            "sources/orders.yaml": {"type": "source", "catalog": "raw", "table": "orders.csv"},
            "joints/paid.sql": "-- rivet:eager: true\nSELECT * FROM orders",
        }
    )
    run_in(shop, None, "paid")
    shop.write({"data/orders.csv": "id,customer,gross\n1,ann,12\n"})
    run_in(shop, "try", "paid")
    assert diff(shop)["paid"]["schema"] == [
        {"column": "net", "change": "dropped", "before": "string", "after": None, "breaks": ["rich", "total"]},
        {"column": "gross", "change": "added", "before": None, "after": "string", "breaks": []},
    ]


def test_a_table_that_the_base_lacks_and_the_named_joints_alone(project, diff):
    shop = project(SHOP)
    run_in(shop, "try")
    found = diff(shop, "out")
    assert list(found) == ["out"]
    out = found["out"]
    assert (out["changed"], out["rows"]) == ("own", {"added": 3, "removed": 0, "changed": 0})
    assert [row["id"] for row in out["samples"]["added"]] == [2, 3, 4]
    assert [column["change"] for column in out["schema"]] == ["added"] * 3
    assert [(check["check"], check["before"], check["after"]) for check in out["checks"]] == [
        ("not_null_customer", None, "warned")
    ]


@pytest.mark.nightly
def test_the_base_is_the_version_that_the_environment_was_made_from(project, diff):
    shop = project(SHOP)
    run_in(shop)
    run_in(shop, "try")
    shop.write({"data/orders.csv": ORDERS + "5,eve,50\n"})
    run_in(shop)
    run_in(shop)
    run_in(shop)  # the catalog has expired the version by now, where nothing else needed it
    assert diff(shop)["out"]["rows"] == NO_ROWS


@pytest.mark.nightly
def test_no_values_of_rows(project, diff):
    """A joint of the group that forbids them is enough."""
    shop = project(SHOP | {"joints/rich.sql": "-- rivet:row_values: false\nSELECT id, customer, net FROM paid"})
    run_in(shop)
    shop.write({"data/orders.csv": ORDERS.replace("ann", "amy")})
    run_in(shop, "try")
    found = diff(shop)
    assert (found["out"]["rows"], found["out"]["samples"]) == ({"added": 0, "removed": 0, "changed": 1}, NO_SAMPLES)
    assert found["paid"]["samples"]["changed"] or found["paid"]["samples"]["added"]


@at_length
def test_no_values_of_rows_by_the_profile(project, diff):
    profiles = {"default": {**deepcopy(PROFILES["default"]), "row_values": False}}
    shop = project(SHOP | {"profiles.yaml": profiles})
    run_in(shop)
    shop.write({"data/orders.csv": ORDERS.replace("ann", "amy")})
    run_in(shop, "try")
    assert all(table["samples"] == NO_SAMPLES for table in diff(shop).values())


@pytest.mark.nightly
def test_merge_keys_come_before_unique_checks(project, diff):
    merge = {"mode": "merge", "key_columns": ["customer"]}
    shop = project(SHOP | {"sinks/out.yaml": sink("out", "rich", assertions=[UNIQUE_ID], write_strategy=merge)})
    run_in(shop)
    shop.write({"data/orders.csv": ORDERS.replace("2,bob", "7,bob")})
    run_in(shop, "try")
    out = diff(shop)["out"]
    assert (out["rows"], out["columns"]) == ({"added": 0, "removed": 0, "changed": 1}, {"id": 1})


def test_one_query_for_each_table_and_none_where_nothing_was_written(project, diff, sql_executions):
    shop = project({**SHOP, "sinks/out.yaml": sink("out", "rich")})
    run_in(shop)
    shop.write({"data/orders.csv": ORDERS + "5,eve,50\n"})
    run_in(shop, "try", "paid", "out")
    sql_executions.since()
    found = diff(shop)
    assert sql_executions.since() == 2
    assert (found["paid"]["rows"]["added"], found["out"]["rows"]["added"]) == (1, 1)


@pytest.mark.nightly
def test_other_formats(project, capsys, monkeypatch):
    shop = project(SHOP)
    run_in(shop)
    run_in(shop, "try", "calendar")
    monkeypatch.setenv("RIVET_ENVIRONMENT", "try")
    capsys.readouterr()
    assert main(["-p", str(shop.root), "diff"]) == 0
    assert capsys.readouterr().out.startswith("environment try: 0 of 1 tables differ from the base\n")
    assert main(["-p", str(shop.root), "diff", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("## Environment <code>try</code>: 0 of 1 tables")
    assert main(["-p", str(shop.root), "diff", "out"]) == 0
    assert "out: not built in the environment 'try'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--environment", "tri"], "RVT-415", "did you mean 'try'"),
        (["otu", "--environment", "try"], "RVT-306", "no joint is named 'otu'; did you mean 'out'?"),
        (["rich", "--environment", "try"], "RVT-306", "'rich' is not stored"),
        ([], "RVT-110", "diff needs an environment"),
    ],
)
def test_bad_input(project, capsys, arguments, code, message):
    shop = project(SHOP)
    use_environment(Runtime(shop.assembly, shop.root, environment="try"))
    assert main(["-p", str(shop.root), "diff", *arguments, "--format", "json"]) != 0
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert error["code"] == code
    assert message in error["message"]
