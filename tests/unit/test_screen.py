"""Progress on stderr: a bar on a terminal, plain lines elsewhere."""

import io
import re

from rivet_dagster.cli.screen import screen_on
from rivet_dagster.engines.contract import Progress


class Tty(io.StringIO):
    """A terminal that records its output."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """Return the visible lines: after a carriage return the line is overwritten from its beginning."""
        shown = []
        for line in self.getvalue().split("\n"):
            cells = ""
            for part in line.split("\r"):
                cells = part + cells[len(part) :]
            shown.append(cells.rstrip())
        return shown


def halves(screen, until: int) -> None:
    for second in range(1, until + 1):
        screen.show("report", Progress(0, 1, second, 2 * until, second))


def test_a_terminal_shows_one_line_that_is_redrawn():
    tty = Tty()
    screen = screen_on(tty)
    halves(screen, 3)
    (line,) = tty.lines()
    assert re.fullmatch(r"report: 0 of 1 stages, 3 of 6 tasks \(50%\), 3 s \|.*\|", line)
    for second in (1, 2, 3):
        assert f"{second} of 6 tasks" in tty.getvalue()
    screen.close()


def test_the_length_of_the_bar_shows_the_progress():
    tty = Tty()
    screen = screen_on(tty)
    shares = []
    for done in (0, 5, 10):
        screen.show("report", Progress(0, 1, done, 10, 1))
        bar = tty.lines()[0].split("|")[1]
        shares.append(sum(cell in "█#" for cell in bar) / len(bar))
    screen.close()
    assert shares == [0, 0.5, 1]


def test_a_line_on_a_terminal_replaces_the_bar():
    tty = Tty()
    screen = screen_on(tty)
    screen.line("report: running")
    halves(screen, 3)
    screen.line("report: done")
    halves(screen, 2)
    screen.close()
    assert tty.lines() == ["report: running", "report: done", ""]


def test_joints_that_are_written_at_once_share_the_line():
    tty = Tty()
    screen = screen_on(tty)
    screen.show("report", Progress(0, 1, 3, 6, 3))
    screen.show("totals", Progress(0, 1, 1, 10, 1))
    screen.show("report", Progress(1, 1, 6, 6, 4))
    (line,) = tty.lines()
    assert re.fullmatch(r"report, totals: 7 of 16 tasks \(43%\) \|.*\|", line)
    screen.line("report: done")
    screen.show("totals", Progress(0, 1, 5, 10, 5))
    assert re.fullmatch(r"totals: 0 of 1 stages, 5 of 10 tasks \(50%\), 5 s \|.*\|", tty.lines()[1])
    screen.close()
    assert tty.lines() == ["report: done", ""]


def test_other_outputs_get_whole_lines_at_a_readable_pace():
    stream = io.StringIO()
    screen = screen_on(stream)
    screen.line("report: running")
    halves(screen, 12)
    screen.line("report: done")
    screen.close()
    assert stream.getvalue().splitlines() == [
        "report: running",
        "report: 0 of 1 stages, 5 of 24 tasks (20%), 5 s",
        "report: 0 of 1 stages, 10 of 24 tasks (41%), 10 s",
        "report: done",
    ]
    assert "\r" not in stream.getvalue()
