"""Storage that does not answer: a failed lookup never counts as a missing file."""

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tables import catalog, fill, ids, publish, refused

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.errors import RivetError

CALLS = {"readlink": os, "stat": os, "lstat": os, "listdir": os, "scandir": os, "open": io}
"""The system calls for lookups, as made by Python's library."""

FAILURES = [errno.EIO, errno.ESTALE, errno.EACCES]


def failing(monkeypatch: pytest.MonkeyPatch, call: str, number: int, below: Path) -> None:
    """Let a call fail for all paths below a folder."""
    home = CALLS[call]
    as_it_is = getattr(home, call)

    def fail(path: Any = ".", *arguments: Any, **options: Any) -> Any:
        if not isinstance(path, int) and Path(os.fspath(path)).is_relative_to(below):
            raise OSError(number, os.strerror(number), str(path))
        return as_it_is(path, *arguments, **options)

    monkeypatch.setattr(home, call, fail)


@pytest.fixture
def warehouse(tmp_path: Path) -> FilesystemCatalog:
    return catalog(tmp_path)


@pytest.mark.parametrize("number", FAILURES, ids=[errno.errorcode[number] for number in FAILURES])
@pytest.mark.parametrize("call", CALLS)
def test_a_published_table_that_cannot_be_looked_up_is_an_error(tmp_path, warehouse, monkeypatch, call, number):
    publish(warehouse, [1], run="one")
    published = publish(warehouse, [2], run="two")
    questions: dict[str, Callable[[], Any]] = {
        "current": lambda: warehouse.current("orders"),
        "by": lambda: warehouse.published_by("orders", "one"),
        "versions": lambda: warehouse.versions("orders"),
        "tables": lambda: warehouse.tables(""),
        "read": lambda: warehouse.read(published),
        "statistics": lambda: warehouse.statistics(published),
        "greatest": lambda: warehouse.max_of(published, "id"),
        "override": lambda: warehouse.watermark_override(published),
        "source": lambda: warehouse.relation("orders", {}),
        "version": lambda: warehouse.data_version("orders", {}),
        "files": lambda: warehouse.files("orders", {}),
        "columns": lambda: warehouse.columns("orders", {}),
    }
    answers = {name: ask() for name, ask in questions.items()}
    failing(monkeypatch, call, number, tmp_path / "warehouse")
    refusals = {}
    for name, ask in questions.items():
        try:
            assert ask() == answers[name], name
        except RivetError as error:
            refusals[name] = str(error)
    assert all(text.startswith("RVT-403") and os.strerror(number) in text for text in refusals.values())
    needs = {"readlink": "current", "stat": "read", "listdir": "current", "scandir": "files", "open": "by"}
    assert needs.get(call) is None or needs[call] in refusals


@pytest.mark.parametrize("call", ["readlink", "open", "scandir"])
def test_a_version_that_may_be_published_is_not_discarded(tmp_path, warehouse, monkeypatch, call):
    """Such as a run whose publish failed after it had succeeded."""
    staged = fill(warehouse.begin("orders"), [1])
    staged.commit("run")
    failing(monkeypatch, call, errno.EIO, tmp_path / "warehouse")
    staged.abort()
    monkeypatch.undo()
    assert ids(tmp_path / "warehouse/orders") == [1]


@pytest.mark.parametrize("number", FAILURES, ids=[errno.errorcode[number] for number in FAILURES])
@pytest.mark.parametrize("table", ["days/*/*.csv", "days/*/a.csv", "days", "days/{one,two}/a.csv"])
def test_an_unreadable_folder_of_a_source_is_an_error(tmp_path, monkeypatch, table, number):
    """Otherwise its files would be left out silently."""
    for name in ("one", "two"):
        (tmp_path / "data/days" / name).mkdir(parents=True)
        (tmp_path / "data/days" / name / "a.csv").write_text("id\n1\n")
    data = catalog(tmp_path, "data")
    questions = (data.relation, data.data_version, data.files, data.columns)
    answers = [ask(table, {}) for ask in questions]
    assert len(answers[2]) == 2
    refusals = {}
    for call in ("stat", "listdir", "scandir"):
        with monkeypatch.context() as patch:
            failing(patch, call, number, tmp_path / "data/days/two")
            for ask, answer in zip(questions, answers, strict=True):
                try:
                    assert ask(table, {}) == answer
                except RivetError as error:
                    refusals[call, ask.__name__] = str(error)
    assert all(text.startswith("RVT-403") and os.strerror(number) in text for text in refusals.values())
    assert {("stat", "files"), ("stat", "data_version")} <= refusals.keys()


def test_an_impossible_file_name_counts_as_missing(tmp_path, warehouse):
    publish(warehouse, [1])
    for table in ("x" * 300, "orders/x/y", "orders/part-0.snappy.parquet/x"):
        assert "does not exist" in str(refused(warehouse.relation, table, {}))
