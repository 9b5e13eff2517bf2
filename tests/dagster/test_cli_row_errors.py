"""`rivet-dagster run` and `compile` of a project with row errors."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.folders import sink
from support.quarantine import CAST, ERRORS, SALES, pretend

from rivet_dagster.cli.main import main
from rivet_dagster.execution.row_error import RowError

LIMITED = {**SALES, "sinks/report.yaml": sink("reports", "paid", on_error={"mode": "quarantine", "max_errors": 2})}
FAILS = {**SALES, "sinks/report.yaml": sink("reports", "paid")}
SITE = {
    "code": "RVT-520",
    "condition": "CAST_INVALID_INPUT",
    "joint": "paid",
    "file": "joints/paid.sql",
    "line": 1,
    "expression": "CAST(amount AS INT)",
    "count": 3,
    "samples": [{"id": "2", "amount": "x"}],
    "message": (
        "3 rows could not be evaluated: [CAST_INVALID_INPUT] in CAST(amount AS INT): The value 'x' cannot be cast"
    ),
}


@pytest.fixture
def cli(folder, monkeypatch, capfd):
    """Return a function that pretends a run and returns its exit code, stdout and stderr."""

    def cli(files, outcome=ERRORS, *arguments: str, command: str = "run") -> tuple[int, str, str]:
        pretend(monkeypatch, outcome)
        monkeypatch.setattr("rivet_dagster.cli.run.text._tables", lambda *_: "")
        code = main(["-p", str(folder(files).root), command, *arguments])
        return (code, *capfd.readouterr())

    return cli


def entries(report: dict) -> list[dict]:
    return [{key: value for key, value in error.items() if key != "remediation"} for error in report["errors"]]


def test_a_quarantining_run_lists_its_sites_and_succeeds(cli):
    code, out, _ = cli(SALES, ERRORS, "--format", "json")
    report = json.loads(out)
    assert (code, report["success"]) == (0, True)
    assert entries(report) == [SITE]
    assert (
        report["errors"][0]["remediation"] == "Correct the data or the expressions; reports__errors holds these rows."
    )
    assert [(g["name"], g["status"]) for g in report["groups"]] == [("report", "success")]
    (check,) = report["checks"]
    expected = ("evaluation_errors", "evaluation_errors", "audit", "warn", False, 3)
    assert tuple(check[key] for key in ("check", "kind", "phase", "severity", "passed", "violations")) == expected
    assert check["sql"] == "SELECT * FROM `reports__errors`"
    assert set(report) == {"success", "run_id", "groups", "checks", "errors"}


def test_too_many_errors_end_with_5(cli):
    code, out, _ = cli(LIMITED, ERRORS, "--format", "json")
    report = json.loads(out)
    assert (code, report["success"]) == (5, False)
    assert entries(report) == [SITE]
    assert [(g["name"], g["status"], g["rows"]) for g in report["groups"]] == [("report", "failed", {})]


def test_errors_within_the_limit_end_with_0(cli):
    code, out, _ = cli(LIMITED, replace(ERRORS, count=2, sites=(replace(CAST, count=2),)), "--format", "json")
    report = json.loads(out)
    assert (code, report["success"]) == (0, True)
    assert [(check["passed"], check["severity"], check["violations"]) for check in report["checks"]] == [
        (True, "error", 2)
    ]
    assert [error["count"] for error in report["errors"]] == [2]


def test_a_failing_run_lists_its_sites_and_ends_with_1(cli):
    other = replace(CAST, condition="DIVIDE_BY_ZERO", expression="a / b", count=1, samples=())
    code, out, _ = cli(FAILS, RowError.at((CAST, other)), "--format", "json")
    report = json.loads(out)
    assert (code, report["success"], report["checks"]) == (1, False, [])
    assert entries(report)[0] == SITE
    assert [(error["condition"], error["count"]) for error in report["errors"]] == [
        ("CAST_INVALID_INPUT", 3), ("DIVIDE_BY_ZERO", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("files", "outcome"), [(SALES, ERRORS), (FAILS, RowError.at((CAST,)))])
def test_the_text_has_a_line_for_each_site(cli, files, outcome):
    _, out, err = cli(files, outcome)
    assert out == ""
    line = "RVT-520 joints/paid.sql:1: joint paid: 3 rows could not be evaluated: [CAST_INVALID_INPUT]"
    assert len([text for text in err.splitlines() if text.strip().startswith(line)]) == 1
    assert ("3 row errors" in err) is (files is SALES)


def test_the_plan_shows_the_error_table(cli):
    _, out, _ = cli(LIMITED, ERRORS, "--format", "json", command="compile")
    plan = json.loads(out)
    (group,) = plan["fused_groups"]
    assert group["target"]["errors"] == {
        "table": "reports__errors",
        "max_errors": {"count": 2, "percent": None},
        "max_age": None,
    }
    (joint,) = [joint for joint in plan["joints"] if joint["name"] == "report"]
    assert [(check["name"], check["queries"]["counting"]["by"]) for check in joint["checks"]] == [
        ("evaluation_errors", "errors")
    ]
    _, out, _ = cli(SALES, ERRORS, command="compile")
    assert "    gate    evaluation_errors (warns)\n" in out
    assert "    errors  lake.reports__errors" in out
