"""Runs whose rows cannot all be evaluated, from the files of a project to Dagster's event log and the command line."""

# No `from __future__ import annotations` here: Dagster reads the annotations of inputs as classes.

import json

import dagster as dg
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.folders import sink, source

from rivet_dagster import load_definitions
from rivet_dagster.cli.main import main

ORDERS = "id,amount,share\n1,10,2\n2,x,1\n3,30,0\n4,y,4\n5,50,5\n"
PAID = "-- rivet:description: amounts\nSELECT id,\n       CAST(amount AS INT) AS amount,\n       share FROM orders"


def sales(**report):
    return {
        "data/orders.csv": ORDERS,
        "sources/orders.yaml": source("orders.csv", "id INT, amount STRING, share INT"),
        "joints/paid.sql": PAID,
        "joints/shares.sql": "SELECT id, amount DIV share AS part FROM paid",
        "sinks/report.yaml": sink("reports", "shares", **report),
    }


QUARANTINE = sales(on_error="quarantine")
GOOD = [{"id": 1, "part": 5}, {"id": 5, "part": 10}]
SITES = {
    ("CAST_INVALID_INPUT", "paid", "joints/paid.sql", 3, 2),
    ("DIVIDE_BY_ZERO", "shares", "joints/shares.sql", 1, 1),
}


def run(root, instance, selection=None, *others) -> dg.ExecuteInProcessResult:
    own = dg.Definitions(assets=others, jobs=[dg.define_asset_job("selected", selection or dg.AssetSelection.all())])
    job = dg.Definitions.merge(load_definitions(root), own).resolve_job_def("selected")
    return job.execute_in_process(instance=instance, raise_on_error=False)


def sites(metadata) -> set[tuple]:
    records = [record.data for record in metadata["rivet/errors_by_site"].records]
    return {tuple(record[key] for key in ("condition", "joint", "file", "line", "count")) for record in records}


def test_good_rows_and_errors_are_published_and_told(project, instance):
    shop = project(QUARANTINE)
    seen = []

    @dg.asset
    def bad(report__errors: pd.DataFrame) -> None:
        seen.append(set(zip(report__errors["code"], report__errors["joint"], strict=True)))

    result = run(shop.root, instance, None, bad)
    assert result.success
    assert shop.rows("reports") == GOOD
    stored = pq.read_table(shop.root / "lake/reports__errors").to_pylist()
    assert {json.loads(error["row"])["id"] for error in stored if error["joint"] == "paid"} == {2, 4}
    assert seen == [{("CAST_INVALID_INPUT", "paid"), ("DIVIDE_BY_ZERO", "shares")}]
    events = {e.asset_key.to_user_string(): e.materialization for e in result.get_asset_materialization_events()}
    assert sites(events["report"].metadata) == sites(events["report__errors"].metadata) == SITES
    assert events["report"].metadata["rivet/errors"].value == 3
    assert {error["version"] for error in stored} == {events["report__errors"].metadata["rivet/version"].value}
    assert {error["run_id"] for error in stored} == {result.run_id}
    (check,) = result.get_asset_check_evaluations()
    assert (check.passed, check.metadata["rivet/violations"].value, sites(check.metadata)) == (False, 3, SITES)


def test_checks_alone_and_the_error_table_alone_tell_the_same(project, instance):
    shop = project(QUARANTINE)
    assert run(shop.root, instance, dg.AssetSelection.assets("report")).success
    before = shop.versions("reports")
    (check,) = run(shop.root, instance, dg.AssetSelection.checks_for_assets("report")).get_asset_check_evaluations()
    assert (check.passed, check.metadata["rivet/violations"].value, sites(check.metadata)) == (False, 3, SITES)
    result = run(shop.root, instance, dg.AssetSelection.assets("report__errors").without_checks())
    (event,) = result.get_asset_materialization_events()
    assert (event.asset_key.to_user_string(), sites(event.materialization.metadata)) == ("report__errors", SITES)
    assert shop.versions("reports") == before


def test_an_error_table_that_was_never_published_cannot_be_told(project, instance):
    result = run(project(QUARANTINE).root, instance, dg.AssetSelection.assets("report__errors").without_checks())
    (failure,) = [e.step_failure_data for e in result.all_events if e.event_type == dg.DagsterEventType.STEP_FAILURE]
    assert "RVT-401 joint report: 'report' has never been materialized" in failure.user_failure_data.description


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(("limit", "code"), [(2, 5), (3, 0), ("59%", 5), ("60%", 0)])
def test_the_limit_decides_what_the_command_line_ends_with(project, capfd, limit, code):
    shop = project(sales(on_error={"mode": "quarantine", "max_errors": limit}))
    assert main(["-p", str(shop.root), "run", "--format", "json"]) == code
    report = json.loads(capfd.readouterr().out)
    found = {tuple(error[key] for key in ("condition", "joint", "file", "line", "count")) for error in report["errors"]}
    assert (report["success"], found) == (code == 0, SITES)
    assert (shop.root / "lake/reports").exists() is (code == 0)
    assert [(check["check"], check["passed"], check["violations"]) for check in report["checks"]] == [
        ("evaluation_errors", code == 0, 3)
    ]


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(
    ("join", "line"),
    [
        ("LEFT JOIN rates AS r\n  ON o.id > 9 AND o.amount = r.share", 4),
        ("JOIN (SELECT share, rate AS amount FROM rates) AS r USING (amount)", 3),
        ("NATURAL JOIN (SELECT rate AS amount FROM rates) AS r", 3),
        ("JOIN rates AS r ON amount = rate", 3),
    ],
)
def test_a_key_of_a_join_whose_cast_could_not_be_separated_is_refused_before_rows_are_written(
    project, capfd, join, line
):
    """The types tell, whatever the rows are: here none fails."""
    files = sales(on_error="quarantine") | {
        "data/orders.csv": "id,amount,share\n1,10,2\n",
        "data/rates.csv": "share,rate\n2,3\n",
        "sources/rates.yaml": source("rates.csv", "share INT, rate INT"),
        "joints/shares.sql": f"SELECT o.id,\n       1 AS part\nFROM orders AS o {join}",
    }
    del files["joints/paid.sql"]
    shop = project(files)
    assert main(["-p", str(shop.root), "run", "--format", "json"]) == 1
    (error,) = json.loads(capfd.readouterr().out)["errors"]
    assert (error["code"], error["file"], error["line"]) == ("RVT-330", "joints/shares.sql", line)
    assert "STRING = INT" in error["message"].upper()
    assert not (shop.root / "lake/reports").exists()


def test_a_failing_run_tells_every_site_and_publishes_nothing(project, capfd):
    shop = project(sales())
    assert main(["-p", str(shop.root), "run", "--format", "json"]) == 1
    report = json.loads(capfd.readouterr().out)
    found = {tuple(error[key] for key in ("condition", "joint", "file", "line", "count")) for error in report["errors"]}
    assert (report["success"], found) == (False, SITES)
    assert {error["code"] for error in report["errors"]} == {"RVT-520"}
    assert not (shop.root / "lake/reports").exists()


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("report", [{}, {"on_error": "quarantine"}])
def test_no_value_of_a_row_is_told_where_that_is_forbidden(project, instance, report):
    shop = project({**sales(**report), "joints/paid.sql": f"-- rivet:row_values: false\n{PAID}"})
    result = run(shop.root, instance)
    texts = [
        entry.to_json() if hasattr(entry, "to_json") else repr(entry) for entry in instance.all_logs(result.run_id)
    ]
    assert not [text for text in texts if "'x'" in text or '"x"' in text or '\\"x\\"' in text]
    assert any("CAST_INVALID_INPUT" in text for text in texts)
