"""Retries of a step that has published."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
from support.standin import TABLE, StandIn, StandInRuntime

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.results import GroupResult, Rows


def run(root: Path, ids: list[int], identity: str) -> GroupResult:
    return run_group(StandInRuntime(root, StandIn(ids)), TABLE, ["numbers", TABLE], identity)


def test_a_retry_publishes_nothing_again_even_when_its_version_has_expired(tmp_path):
    first = run(tmp_path, [1, 2, 3], "monday/out")
    for number in range(5):
        run(tmp_path, [number], f"tuesday/out/{number}")
    again = run(tmp_path, [7, 8, 9], "monday/out")
    assert first.published is not None
    assert again.published == replace(first.published, code_versions={})  # which are those of versions that exist
    assert again.rows == first.rows == Rows(3, 0, 0, 3)
    assert [(result.check.name, result.passed) for result in again.checks] == [
        (result.check.name, True) for result in first.checks
    ]
    assert pq.read_table(tmp_path / "lake" / TABLE)["id"].to_pylist() == [4]


def test_a_commit_that_is_carried_out_late_is_found_by_the_retry_that_has_begun_upon_it(tmp_path, monkeypatch):
    """As one of an earlier attempt of which nobody knew the outcome."""
    begin, late = FilesystemCatalog.begin, []

    def begins(catalog, *arguments):
        if not late:
            late.append("begun")
            late.append(run(tmp_path, [1, 2], "monday/out"))
        return begin(catalog, *arguments)

    monkeypatch.setattr(FilesystemCatalog, "begin", begins)
    again = run(tmp_path, [7, 8, 9], "monday/out")
    assert again.published == late[1].published
    assert pq.read_table(tmp_path / "lake" / TABLE)["id"].to_pylist() == [1, 2]
