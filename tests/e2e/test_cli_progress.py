"""A run's progress on the command line, with a terminal and without one."""

import json
import re
import sys

import pytest
from support.slow import TWO_STAGES, poll_often
from support.terminal import COLUMNS, terminal

from rivet_dagster.cli.main import main

FILES = {"joints/slow.sql": f"-- rivet:eager: true\n-- rivet:assert: row_count(min=1)\n{TWO_STAGES}"}
TASKS = re.compile(r"slow: \d of \d stages, (\d+) of \d+ tasks \(\d+%\), \d+ s")
BAR = re.compile(r"[^ ]? *slow +write +\S+ (\d)/(\d) stages, (\d+)/(\d+) tasks +\d:\d\d:\d\d")


@pytest.fixture(autouse=True)
def _slow(monkeypatch):
    for name in ("DAGSTER_HOME", "RIVET_PROFILE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    poll_often(monkeypatch)


def test_a_terminal_shows_bars_that_move_and_go_and_then_the_summary(project, monkeypatch, capfd):
    root = project(FILES).root
    with terminal() as (stream, seen), monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        assert main(["-p", str(root), "run"]) == 0
    assert capfd.readouterr().out == ""
    drawn = [found for lines in seen.screens for line in lines if (found := BAR.fullmatch(line.rstrip()))]
    done = [int(found[3]) for found in drawn]
    assert len(set(done)) > 2
    assert done == sorted(done), "no bar goes back"
    stages_done, stages, tasks_done, tasks = drawn[-1].groups()
    assert (stages_done, stages, tasks_done) == ("2", "2", tasks)
    phases = {line.split()[2] for lines in seen.screens for line in lines if re.match(r"\S slow ", line)}
    assert {"write", "quality"} <= phases
    assert all(len(line) <= COLUMNS for lines in seen.screens for line in lines if re.match(r". (slow|run) ", line))
    assert re.search(r"\x1b\[[0-9;]+m", seen.text), "colours"
    assert seen.text.count("\x1b[?25h") == 1, "the cursor is there again"
    final = [re.sub(r"\d+\.\d+", "S", line) for line in seen.final]
    assert final[:5] == ["wave 1  slow", "  slow.row_count  passed", "slow  done  4 rows, S s", *final[3:5]]
    assert final[3].split() == ["group", "status", "rows", "seconds", "slowest", "phases"]
    assert re.fullmatch(r"slow +success +4 +S  write S(, \w+ S)?", final[4])
    assert "1 check, 1 passed" in final
    assert final[-1].startswith("1 of 1 groups succeeded; Dagster run ")


def test_other_outputs_get_plain_lines(project, monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("rivet_dagster.execution.progress.FIRST_SECONDS", 0.3)
    assert main(["-p", str(project(FILES).root), "run", "--format", "json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["success"]
    lines = err.splitlines()
    progress_lines = [line for line in lines if TASKS.fullmatch(line)]
    assert 2 <= len(progress_lines) <= 6
    assert not {"\r", "\x1b"} & {*out, *err}
    order = ["wave 1: slow", "slow: running", progress_lines[0], progress_lines[-1], "slow: check row_count passed"]
    places = [lines.index(line) for line in [*order, "slow: done"]]
    assert places == sorted(places)
