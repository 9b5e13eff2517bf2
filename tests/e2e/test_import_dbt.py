"""Projects of dbt, imported and run, again on changed seeds, against what dbt-spark made of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.dbt import ONLY_DBTS, compared
from support.torture import TORTURE, at_length, examples

from rivet_dagster.dbt.translation.joints_of_tests import UNREAD

DBT = Path(__file__).parent.parent / "dbt"

TOLD = {("shop", 0, "not_null|stg_orders|amount_cents|error")}
"""Where dbt warns by `warn_if` of a test whose severity is error: a check has one severity, and the report tells it."""

WITHHELD = {("shop", 1, "whole_overwrite")}
"""Tables that dbt had written before their own tests failed."""

REFUSED_BY_DBT = {("history", build, "people_by_two") for build in (1, 2)}
"""dbt-spark builds a snapshot with several key columns only once: then `dbt_unique_key_1` is ambiguous to Spark."""

SEEDS_AND_VIEWS = {
    "shop": {"countries", "raw_customers", "stg_orders", "raw_orders", "customers_stage", "stg_visits"},
    "history": {"people", "visits"},
    "combinations": {"visits", "kind_view"},
    "cafe": {
        "raw_customers",
        "raw_orders",
        "raw_payments",
        "stg_customers",
        "stg_orders",
        "stg_payments",
        "open_orders",
    },
    "ledger": {"accounts", "entries", "stg_entries"},
    "toolkit": {"clicks", "orders"},
}
"""What is not stored here."""

LEFT_OUT = {
    "shop": {
        ("analysis", "top"),
        ("hook", "on-run-end"),
        ("macro", "ask"),
        ("disabled", "old"),
        ("disabled", "prices_are_there"),
    },
    "history": {
        ("model", "visits_counted"),
        ("model", "visits_placed"),
        ("model", "visits_in_batches"),
        ("snapshot", "people_until"),
        ("snapshot", "people_gone"),
    },
    "combinations": {("model", "insert_overwrite_whole_asks")},
    "cafe": set(),
    "ledger": set(),
    "toolkit": set(),
}

RANDOM = json.loads((DBT / "recorded" / "random.json").read_text())["projects"]
"""What dbt made of random projects (tests/dbt/record_random.py), by their numbers."""
TRIED = [*RANDOM] if TORTURE else []

TIMES = {
    "shop": examples(1, 2),
    "history": examples(1, 3),
    "combinations": examples(2, 3),
    "cafe": 1,
    "ledger": 2,
    "toolkit": 1,
}
"""How often each project is run."""
BUILDS = [(project, build) for project, times in TIMES.items() for build in range(times)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run all projects in one Spark of a process of their own."""
    folder = tmp_path_factory.mktemp("imported")
    names = (*TIMES, *(f"random_{number}" for number in TRIED))
    projects = [f"{project}:{times}" for project, times in TIMES.items()]
    given = [*projects, *([f"{DBT / 'recorded' / 'random.json'}:{','.join(TRIED)}"] if TRIED else [])]
    done = subprocess.run([sys.executable, DBT / "run_imported.py", folder, *given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in names}


def recorded(project):
    return json.loads((DBT / "recorded" / f"{project}.json").read_text())["builds"]


@pytest.mark.nightly
@pytest.mark.parametrize(("project", "build"), BUILDS)
def test_the_tables_are_those_of_dbt(runs, project, build):
    dbt, ours = recorded(project)[build]["tables"], runs[project]["runs"][build]["tables"]
    absent = SEEDS_AND_VIEWS[project] | {name for _, name in LEFT_OUT[project]}
    assert set(ours) == set(dbt) - absent
    for table in ours:
        if (project, build, table) not in WITHHELD | REFUSED_BY_DBT:
            assert compared(ours[table]) == compared(dbt[table]), table
            types = [column for column in dbt[table]["columns"] if column[0] not in ONLY_DBTS]
            assert [column for column in ours[table]["columns"] if column[0] != "dbt_is_current"] == types, table


@pytest.mark.nightly
@pytest.mark.parametrize(("project", "build"), BUILDS)
def test_the_verdicts_are_those_of_dbt(runs, project, build):
    dbt, ours = recorded(project)[build]["tests"], runs[project]["runs"][build]["checks"]
    dbt = {test.replace("|crm_visits|", "|visits|"): verdict for test, verdict in dbt.items()}
    assert ours.keys() == dbt.keys()
    told = {test for name, number, test in TOLD if (name, number) == (project, build)}
    assert {test: verdict for test, verdict in ours.items() if test not in told} == {
        test: verdict for test, verdict in dbt.items() if test not in told
    }
    assert {ours[test] for test in told} <= {"pass"}
    assert {dbt[test] for test in told} <= {"warn"}


@pytest.mark.nightly
@pytest.mark.parametrize("project", TIMES)
def test_what_is_left_out(runs, project):
    left_out = {
        (entry.get("kind", "model"), entry["name"])
        for section in ("models", "tests", "others")
        for entry in runs[project]["report"][section]
        if entry["status"] == "left_out"
    }
    assert left_out == LEFT_OUT[project]
    assert runs[project]["import"] == (2 if left_out else 0)


@at_length
@pytest.mark.parametrize("number", TRIED)
def test_random_projects(runs, number):
    """Tables and verdicts are those of dbt, but where a test fails: a gate leaves the table as it was before."""
    run = runs[f"random_{number}"]
    assert run["digest"] == RANDOM[number]["digest"], "the generator makes other files now: record them again"
    assert run["import"] == 0
    failed_before: set[str] = set()
    for ours, dbt in zip(run["runs"], RANDOM[number]["builds"], strict=True):
        tests = {name: verdict for name, verdict in dbt["tests"].items() if verdict != "skipped"}
        failed = {model_of(run, name) for name, verdict in tests.items() if verdict == "fail"}
        unlike = {model for name in failed_before for model in run["after"][name]}
        assert judged(run, ours["checks"], unlike) == judged(run, tests, unlike)
        withheld = {name for model in failed | unlike for name in (model, f"{model}_aliased")} | {UNREAD}
        assert ours["tables"].keys() - withheld == dbt["tables"].keys() - withheld
        for table in ours["tables"].keys() - withheld:
            assert ours["tables"][table]["columns"] == dbt["tables"][table]["columns"], table
            assert compared(ours["tables"][table]) == compared(dbt["tables"][table]), table
        failed_before |= failed


def judged(run, verdicts, unlike):
    """Return the verdicts on models that are the same before the tests."""
    return {name: verdict for name, verdict in verdicts.items() if model_of(run, name) not in unlike}


def model_of(run, test):
    """Return the model that a test of a record belongs to."""
    if "|" in test:
        return test.split("|")[1]
    return next(entry["joint"] for entry in run["report"]["tests"] if entry["name"] == test)
