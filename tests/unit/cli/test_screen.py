"""The screen of a run: bars on a terminal, plain lines elsewhere, colours only where they are wanted."""

import io
import re

import pytest
from support.terminal import COLUMNS, terminal

from rivet_dagster.cli.screen import AGAIN, CANCELED, DONE, RUNNING, WAITS, Verdict, screen_on
from rivet_dagster.engines.contract import Progress

ESCAPE = "\x1b"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PASSED = Verdict("report", "row_count", passed=True, blocking=True, violations=0)
WARNED = Verdict("report", "not_null_id", passed=False, blocking=False, violations=2)
BROKEN = Verdict("report", "custom", passed=False, blocking=True, error="no such column\nin line 2")


@pytest.fixture(autouse=True)
def _usual_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


def play(screen) -> None:
    """Show a run of two groups at once, one of which is tried again, and close the screen."""
    screen.begin(["report", "totals"])
    screen.wave(2, ["report", "totals"])
    screen.state("report", RUNNING)
    screen.phase("report", "write")
    for second in range(1, 13):
        screen.show("report", Progress(0, 1, second, 24, second))
    screen.state("totals", RUNNING)
    screen.phase("totals", "config")
    screen.phase("report", "quality")
    for verdict in (PASSED, WARNED, BROKEN):
        screen.verdict(verdict)
    screen.state("report", DONE, 1200)
    screen.state("totals", WAITS)
    screen.state("totals", AGAIN)
    screen.state("totals", CANCELED)
    screen.close()


def test_other_outputs_get_whole_lines_at_a_readable_pace():
    stream = io.StringIO()
    play(screen_on(stream))
    assert stream.getvalue().splitlines() == [
        "wave 2: report, totals",
        "report: running",
        "report: 0 of 1 stages, 5 of 24 tasks (20%), 5 s",
        "report: 0 of 1 stages, 10 of 24 tasks (41%), 10 s",
        "totals: running",
        "report: check row_count passed",
        "report: check not_null_id warning: 2 violations",
        "report: check custom FAILED: no such column",
        "report: done",
        "totals: will be tried again",
        "totals: running again",
        "totals: canceled",
    ]
    assert "\r" not in stream.getvalue()
    assert ESCAPE not in stream.getvalue()


def test_a_terminal_shows_a_bar_for_each_running_group_and_keeps_only_whole_lines():
    with terminal() as (stream, seen):
        play(screen_on(stream))
    shown = ["\n".join(lines) for lines in seen.screens]
    assert max(len(line) for screen in seen.screens for line in screen) <= COLUMNS
    done = [
        int(found[1]) for each in shown if (found := re.search(r"report +write .* 0/1 stages, (\d+)/24 tasks", each))
    ]
    assert done == sorted(done)
    assert set(done) == set(range(1, 13))
    assert any(re.search(r"run .* 0 of 2 groups.*\n.*report +quality .*\n.*totals +config ", each) for each in shown)
    assert any(re.search(r"run .* 1 of 2 groups.*\n.*totals ", each) for each in shown)
    final = [re.sub(r", \d+\.\d s$", "", line) for line in seen.final]
    assert [re.sub(r"  \d+\.\d s$", "", line) for line in final] == [
        "wave 2  report, totals",
        "  report.row_count  passed",
        "  report.not_null_id  warning: 2 violations",
        "  report.custom  FAILED: no such column",
        "report  done  1,200 rows",
        "totals  will be tried again",
        "totals  running again",
        "totals  canceled",
    ]
    assert COLOUR.search(seen.text)
    assert seen.text.count("\x1b[?25l") == seen.text.count("\x1b[?25h") == 1, "the cursor is there again"


def test_no_color_leaves_the_bars_and_takes_the_colours(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal() as (stream, seen):
        play(screen_on(stream))
    assert not COLOUR.search(seen.text)
    assert any("12/24 tasks" in line for screen in seen.screens for line in screen)


def test_a_dumb_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with terminal() as (stream, seen):
        play(screen_on(stream))
    assert ESCAPE not in seen.text
    assert seen.final[1:3] == ["report: running", "report: 0 of 1 stages, 5 of 24 tasks (20%), 5 s"]


def test_an_encoding_without_line_drawing_gets_ascii():
    with terminal() as (stream, seen):
        stream.reconfigure(encoding="ascii")
        play(screen_on(stream))
    assert seen.text.isascii()
    assert any("12/24 tasks" in line for screen in seen.screens for line in screen)
