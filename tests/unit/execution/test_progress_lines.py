"""The pace of progress lines."""

import pytest

from rivet_dagster.engines.contract import Progress
from rivet_dagster.execution.progress import ProgressLines


def seconds_with_a_line(until: int) -> list[int]:
    """Return the seconds at which a write of that length, with progress once a second, prints a line."""
    written: list[str] = []
    lines = ProgressLines(written.append)
    found = []
    for second in range(1, until + 1):
        before = len(written)
        lines.show("report", Progress(0, 1, 0, 8, second))
        if len(written) > before:
            found.append(second)
    return found


@pytest.mark.parametrize(
    ("until", "expected"), [(4, []), (5, [5]), (60, [5, 10, 20, 40]), (300, [5, 10, 20, 40, 80, 140, 200, 260])]
)
def test_lines_appear_at_growing_intervals_and_then_once_a_minute(until, expected):
    assert seconds_with_a_line(until) == expected


def test_missed_lines_are_not_made_up_for():
    written: list[str] = []
    lines = ProgressLines(written.append)
    for second in (25.0, 26.0, 39.0, 41.0):
        lines.show("report", Progress(0, 1, 0, 8, second))
    assert [line.rpartition(", ")[2] for line in written] == ["25 s", "41 s"]


def test_a_line_has_stages_tasks_and_time():
    written: list[str] = []
    ProgressLines(written.append).show("daily_report", Progress(3, 5, 240, 800, 20.4))
    assert written == ["daily_report: 3 of 5 stages, 240 of 800 tasks (30%), 20 s"]


def test_each_write_has_its_own_pace():
    written: list[str] = []
    lines = ProgressLines(written.append)
    for name, second in (("one", 6), ("one", 7), ("other", 6), ("other", 7)):
        lines.show(name, Progress(0, 1, 0, 8, second))
    assert [line.partition(":")[0] for line in written] == ["one", "other"]


def test_only_all_tasks_are_100_percent():
    assert Progress(1, 2, 1999, 2000, 1).percent == 99
    assert Progress(2, 2, 2000, 2000, 1).percent == 100
