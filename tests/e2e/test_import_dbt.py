"""Projects of dbt, imported and run twice, against what dbt-spark made of them (tests/dbt/record.py)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

DBT = Path(__file__).parent.parent / "dbt"

TOLD = {("shop", 0, "not_null|stg_orders|amount_cents|error")}
"""Where dbt warns by `warn_if` of a test whose severity is error: a check has one severity, and the report tells it."""

WITHHELD = {("shop", 1, "whole_overwrite")}
"""Tables that dbt had written before their own tests failed."""

NOT_STORED = {"countries", "raw_customers", "stg_orders", "raw_orders", "customers_stage", "stg_visits", "people"}
"""Views, and seeds: sources here."""

BUILDS = [("shop", 0), ("shop", 1), ("history", 0)]
"""The second build of `history` is no incremental one: dbt does not see the tables of a Hadoop catalog of Iceberg."""

ONLY_DBTS = {"dbt_scd_id", "dbt_updated_at"}
OF_THE_RUN = {"people_by_city": {"dbt_valid_from", "dbt_valid_to"}, "people_whole": {"dbt_valid_from", "dbt_valid_to"}}
"""Times of the run itself: only whether there is one is compared."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run all projects in one Spark of a process of their own."""
    folder = tmp_path_factory.mktemp("imported")
    script = [sys.executable, DBT / "run_imported.py", folder, "shop", "history"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in ("shop", "history")}


def recorded(project):
    return json.loads((DBT / "recorded" / f"{project}.json").read_text())["builds"]


def with_columns(recorded, ours):
    """Return a recorded table with its columns in the order of its rows; an older record has them sorted by name."""
    columns = recorded["columns"]
    if isinstance(columns, list):
        return recorded
    assert columns.keys() == {name for name, _ in ours["columns"]}
    return {**recorded, "columns": [[name, columns[name]] for name, _ in ours["columns"]]}


def compared(table, rows):
    """Return the rows with the values that can be compared; dbt's session mode writes a NULL of a seed as 'None'."""
    names = [name for name, _ in rows["columns"]]
    chosen = [name for name in names if name not in ONLY_DBTS and name != "dbt_is_current"]
    times = OF_THE_RUN.get(table, ())

    def value(name, cell):
        cell = None if cell == "None" else cell
        return cell is not None if name in times else cell

    return sorted(([(n, value(n, row[names.index(n)])) for n in sorted(chosen)] for row in rows["rows"]), key=str)


@pytest.mark.parametrize(("project", "build"), BUILDS)
def test_the_tables_are_those_of_dbt(runs, project, build):
    dbt, ours = recorded(project)[build]["tables"], runs[project]["runs"][build]["tables"]
    assert set(ours) == set(dbt) - NOT_STORED
    for table in ours:
        if (project, build, table) not in WITHHELD:
            theirs = with_columns(dbt[table], ours[table])
            assert compared(table, ours[table]) == compared(table, theirs), table
            types = [[name, kind] for name, kind in theirs["columns"] if name not in ONLY_DBTS]
            assert [c for c in ours[table]["columns"] if c[0] != "dbt_is_current"] == types, table


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


def test_what_is_left_out(runs):
    left_out = {
        (entry.get("kind", "model"), entry["name"])
        for section in ("models", "tests", "others")
        for entry in runs["shop"]["report"][section]
        if entry["status"] == "left_out"
    }
    assert left_out == {
        ("analysis", "top"),
        ("hook", "on-run-end"),
        ("macro", "ask"),
        ("disabled", "old"),
        ("exposure", "dashboard"),
        ("unit_test", "prices_are_there"),
    }
    assert runs["shop"]["import"] == 2
    assert runs["history"]["import"] == 0
