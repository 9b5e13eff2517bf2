"""``rivet-dagster test`` and the plugin of pytest, on a copy of the example, in the one Spark of this process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from support.example import EXAMPLE
from support.spark import MASTER

from rivet_dagster.cli.main import main
from rivet_dagster.engines.pyspark import PySparkEngine

FAILING = """
name: a_day_ends_an_episode
extends: consecutive_days_share_an_episode
expected:
  columns: [flight_date, flights, cancelled, episode]
  rows: [['2013-02-08', 900, 400, '2013-02-07'], ['2013-02-09', 700, 36, '2013-02-07']]
"""


@pytest.fixture
def project(tmp_path: Path, application: PySparkEngine) -> Path:
    place = tmp_path / "flights"
    left_out = shutil.ignore_patterns("data", "warehouse", "lakehouse", ".rivet", "__pycache__")
    shutil.copytree(EXAMPLE, place, ignore=left_out)
    profiles = place / "profiles.yaml"
    profiles.write_text(profiles.read_text().replace("master: local[*]", f"master: {MASTER}"))
    return place


@pytest.fixture
def run(project, capfd):
    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["-p", str(project), "test", *arguments])
        return code, *capfd.readouterr()

    return run


def test_the_tests_of_the_example_pass(run, project):
    code, out, err = run()
    assert (code, out.count("passed  ")) == (0, len(out.splitlines()))
    names = re.findall(r"^name: (\w+)", "".join(f.read_text() for f in sorted(project.glob("tests/*"))), re.MULTILINE)
    assert [line.split()[1] for line in out.splitlines()] == names
    assert err.splitlines()[-1].startswith(f"{len(names)} passed in ")
    assert not (project / "warehouse").exists()


def test_a_failing_test_shows_its_rows_and_exits_with_3(run, project):
    (project / "tests/failing.test.yaml").write_text(FAILING)
    code, out, err = run("-k", "day_ends")
    assert code == 3
    assert out.splitlines()[0] == "failed  a_day_ends_an_episode  tests/failing.test.yaml:2"
    assert [line.strip() for line in out.splitlines()[1:]] == [
        "rows of 'disrupted_days': 1 missing, 2 unexpected, 1 as expected",
        "flight_date  flights  cancelled  episode",
        "- 2013-02-09   700      36         2013-02-07  expected",
        "+ 2013-02-09   700      35         2013-02-07  differs in cancelled",
        "+ 2013-02-11   800      80         2013-02-08  unexpected",
    ]
    assert err.splitlines()[-1].startswith("1 failed in ")
    code, out, _ = run("--format", "json", "tests/failing.test.yaml")
    shown = json.loads(out)
    assert (code, shown["success"], len(shown["tests"])) == (3, False, 1)
    assert shown["tests"][0]["diff"]["missing"][0]["cancelled"] == 36


def test_a_mistake_is_an_error_of_one_test_and_the_others_run(run, project):
    (project / "tests/mistake.test.yaml").write_text("target: disrupted_dys\nerror: E\n")
    code, out, _ = run("--format", "json")
    tests = {test["name"]: test for test in json.loads(out)["tests"]}
    assert code == 3
    assert tests.pop("mistake")["message"].startswith("RVT-306 tests/mistake.test.yaml:1: no joint is named ")
    assert {test["status"] for test in tests.values()} == {"passed"}


def test_what_is_no_path_no_project_or_no_plan(run, project, capfd, tmp_path):
    code, _, err = run("tests/carrier.test.yaml")
    assert code == 10
    assert "RVT-110 there is no tests/carrier.test.yaml; did you mean 'tests/carriers.test.yaml'" in err
    assert main(["-p", str(tmp_path), "test"]) == 10
    assert run("--watch", "--format", "json")[0] == 10
    code, out, _ = run("-k", "no test has this name", "--format", "json")
    assert (code, json.loads(out)["errors"][0]["message"]) == (
        10,
        "no test has a name with 'no test has this name' in it",
    )
    code, _, err = run("tests/carriers.test.yaml", "-k", "delays")
    assert (code, "RVT-110 no test in tests/carriers.test.yaml has a name with 'delays' in it" in err) == (10, True)
    (project / "joints/wrong.sql").write_text("SELECT * FROM")
    code, out, _ = run("--format", "json")
    assert (code, json.loads(out)["success"]) == (1, False)
    (project / "joints/wrong.sql").unlink()
    shutil.rmtree(project / "tests")
    code, out, _ = run("--format", "json")
    assert (code, json.loads(out)) == (0, {"success": True, "tests": []})


def test_watching_runs_what_a_saved_file_touches_until_an_interrupt(run, project, monkeypatch):
    joint = project / "joints/disruptions/disrupted_days.sql"
    text = joint.read_text()

    def interrupt():
        raise KeyboardInterrupt

    saves = iter(
        [
            lambda: joint.write_text(text.replace(">= flights", "> flights")),
            lambda: joint.write_text("SELECT nothing FROM daily_cancellations"),
            lambda: joint.write_text(text),
            interrupt,
        ]
    )
    monkeypatch.setattr("rivet_dagster.cli.testing_command.interval", lambda: next(saves)())
    code, out, err = run("--watch")
    assert code == 130
    runs = [line for line in err.splitlines() if re.match(r"\d+ (passed|failed)|no tests", line)]
    assert [re.sub(r" in .*", "", line) for line in runs] == ["4 passed", "1 failed", "1 passed"]
    assert "- 2013-02-09   700      35         2013-02-07  missing" in out
    assert "RVT-327" in err
    assert err.splitlines()[-1] == "interrupted"


PLUGIN = "rivet_dagster.pytest_plugin"


@pytest.mark.nightly
def test_pytest_collects_and_runs_the_same_files(project):
    (project / "tests/failing.test.yaml").write_text(FAILING)
    (project / "tests/test_python.py").write_text("def test_python():\n    pass\n")
    code, out = run_pytest(project, "-v")
    assert code == 1
    assert "tests/failing.test.yaml::a_day_ends_an_episode FAILED" in out
    assert "tests/carriers.test.yaml::a_month_of_few_flights_has_no_rank PASSED" in out
    assert "+ 2013-02-09   700      35         2013-02-07  differs in cancelled" in out
    assert "Traceback" not in out
    assert "1 failed, 5 passed" in out
    code, out = run_pytest(project, "-v", "-k", "rank or python")
    assert (code, "2 passed, 4 deselected" in out) == (0, True)


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest in this process, with the plugin, and return its exit code and output."""
    out = io.StringIO()
    before = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out):
            options = ["-p", PLUGIN, "-p", "no:cacheprovider", "-o", "addopts=", "--rootdir", str(folder), "-s"]
            code = pytest.main([*options, "--color=no", *arguments, str(folder)])
    finally:
        os.chdir(before)
    return int(code), out.getvalue()
