"""One version for each run: retries after publishing, and runs that overtake each other."""

from unittest.mock import patch

import pytest
from support.folders import ProjectFolder, sink
from support.iceberg import PACKAGES
from support.iceberg_folders import IcebergFolder, profiles
from support.maven import jars

from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.writing import publish as transaction

POSITIVE = {"type": "expression", "name": "positive", "sql": "id >= 0"}


@pytest.fixture
def folder(project) -> ProjectFolder:
    return project({"joints/numbers.sql": "SELECT id FROM range(3)", "sinks/out.yaml": sink("out", "numbers")})


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch) -> None:
    monkeypatch.setattr(transaction, "PAUSES", (0.0, 0.0, 0.0))


def overtaken(folder: ProjectFolder, times: int):
    """Let another run publish right before the run, ``times`` times."""
    commit = TableTransaction.commit
    left = [times]

    def slow(transaction, *made_by):
        if left[0]:
            left[0] -= 1
            with patch.object(TableTransaction, "commit", commit):
                folder.run("out", identity=f"other-{left[0]}")
        return commit(transaction, *made_by)

    return patch.object(TableTransaction, "commit", slow)


def test_a_retry_of_a_published_run_publishes_nothing_twice(folder, sql_executions):
    folder.write({"sinks/out.yaml": sink("out", "numbers", assertions=[POSITIVE])})
    first = folder.run("out", identity="run/out")
    folder.write({"joints/numbers.sql": "SELECT id FROM range(5)"})
    sql_executions.since()
    again = folder.run("out", identity="run/out")
    assert again.published == first.published
    assert again.rows == first.rows
    assert [(check.check.name, check.passed) for check in again.checks] == [("positive", True)]
    assert sql_executions.since() == 1  # the check, and no write
    folder.run("out", identity="other/out")
    late = folder.run("out", identity="run/out")
    assert late.published == first.published
    assert folder.rows("out") == [{"id": n} for n in range(5)]


def test_an_overtaken_run_computes_again(folder):
    with overtaken(folder, 3):
        result = folder.run("out", identity="mine")
    assert folder.runtime.catalog("lake").current("out") == result.published
    assert result.published.identity == "mine"
    names = [one.name for one in folder.runtime.catalog("lake").versions("out")]
    assert {name.partition(".")[0] for name in folder.versions("out")} - {"publishers"} == set(names)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(
    ("strategy", "rows"),
    [
        ("append", [0, 0, 1, 1, 2, 2]),
        ({"mode": "merge", "key_columns": ["id"]}, [0, 1, 2]),
        ({"mode": "delete_insert", "key_columns": ["id"]}, [0, 1, 2]),
        ({"mode": "incremental_append", "watermark_column": "id"}, [0, 1, 2]),
    ],
)
def test_an_overtaken_run_writes_on_top_of_the_other_version(folder, strategy, rows):
    folder.write({"sinks/out.yaml": sink("out", "numbers", write_strategy=strategy)})
    with overtaken(folder, 1):
        result = folder.run("out", identity="mine")
    assert [row["id"] for row in folder.rows("out")] == rows
    assert result.rows.total == len(rows)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(
    ("strategy", "rows", "counts"),
    [
        ("append", ["first 0", "mine 1", "mine 2", "mine 3", "other 2", "other 3", "other 4"], (3, 0)),
        ({"mode": "merge", "key_columns": ["id"]}, ["first 0", "mine 1", "mine 2", "mine 3", "other 4"], (1, 2)),
    ],
)
def test_of_two_projects_that_publish_to_one_iceberg_table_at_once_no_row_is_lost(
    application, tmp_path, strategy, rows, counts
):
    jars(*PACKAGES)

    def numbers(name: str, first: int, end: int) -> dict[str, str]:
        return {"joints/numbers.sql": f"SELECT '{name} ' || id AS text, id FROM range({first}, {end})"}

    out = {"sinks/out.yaml": sink("out", "numbers", write_strategy=strategy)}
    folder = IcebergFolder(tmp_path / "mine", numbers("first", 0, 1) | out)
    folder.run("out")
    folder.write(numbers("mine", 1, 4))
    of_others = {"profiles.yaml": profiles(catalog="hadoop", warehouse=str(tmp_path / "mine/lake"))}
    others = IcebergFolder(tmp_path / "others", of_others | numbers("other", 2, 5) | out)
    with overtaken(others, 1):
        result = folder.run("out", identity="mine")
    assert sorted(row["text"] for row in folder.rows("out")) == rows
    assert (result.rows.inserted, result.rows.updated, result.rows.total) == (*counts, len(rows))
    assert [version.identity for version in folder.runtime.catalog("lake").versions("out")][:2] == ["mine", "other-0"]
    refs, _, published, tables, heartbeats = folder.state("out")
    assert (list(refs), len(published), tables, heartbeats) == (["main"], 3, [("shop", "out")], [])


def test_the_version_of_a_run_that_is_always_overtaken_is_withheld(folder):
    with overtaken(folder, 4), pytest.raises(RivetError) as caught:
        folder.run("out", identity="mine")
    (found,) = caught.value.diagnostics
    catalog = folder.runtime.catalog("lake")
    (withheld,) = [one for one in catalog.versions("out") if one.state == "withheld"]
    assert (found.code, found.joint) == ("RVT-405", "out")
    assert f"the last of 4 attempts is withheld as {withheld.name}" in found.message
    assert f"rivet-dagster versions publish out {withheld.name}" in found.remediation
    assert catalog.current("out").identity == "other-0"
    assert catalog.sweep() == ()
    assert catalog.take_up("out", withheld.name).commit("by hand").statistics.rows == 3


def test_a_run_overtaken_by_its_own_retry_is_finished(folder):
    """A step that counted as dead continues and publishes while its retry does."""
    commit = TableTransaction.commit

    def zombie(transaction, *made_by):
        with patch.object(TableTransaction, "commit", commit):
            folder.run("out", identity="mine")
        return commit(transaction, *made_by)

    with patch.object(TableTransaction, "commit", zombie):
        result = folder.run("out", identity="mine")
    assert len(folder.runtime.catalog("lake").versions("out")) == 1
    assert folder.runtime.catalog("lake").current("out") == result.published
