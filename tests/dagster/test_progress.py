"""Progress of a long write in the log of a run."""

import re

import pytest
from support.slow import TWO_STAGES, poll_often

from rivet_dagster import load_definitions

FILES = {"joints/slow.sql": f"-- rivet:eager: true\n{TWO_STAGES}"}
LINE = re.compile(r"slow: \d of \d stages, \d+ of \d+ tasks \(\d+%\), \d+ s")


@pytest.fixture
def log(project, instance):
    """Run everything and return the log messages besides Dagster's own events."""

    def log(files) -> list[tuple[int, str, str]]:
        job = load_definitions(project(files).root).resolve_job_def("all")
        result = job.execute_in_process(instance=instance)
        assert result.success
        entries = instance.all_logs(result.run_id)
        return [(e.level, e.step_key, e.user_message) for e in entries if e.dagster_event is None]

    return log


def test_progress_of_a_long_write_is_logged_at_a_readable_pace(log, monkeypatch):
    poll_often(monkeypatch)
    monkeypatch.setattr("rivet_dagster.execution.progress.FIRST_SECONDS", 0.3)
    lines = log(FILES)
    assert {level for level, _, _ in lines} == {20}
    assert {step for _, step, _ in lines} == {"slow"}
    assert all(LINE.fullmatch(text) for _, _, text in lines), lines
    assert 2 <= len(lines) <= 6  # after 0.3 s, 0.6 s, 1.2 s, ...; progress is polled five times a second
