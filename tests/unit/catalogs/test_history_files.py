"""Histories in files: the closed versions of other keys are shared, not read, and the rows are those of the model."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scd2_histories import conflicts_of, histories
from support.scd2_model import Scd2
from support.torture import examples

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.writes import staged_version
from rivet_dagster.engines.duckdb import DuckDBEngine
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.relations import Files
from rivet_dagster.model.write_plan import Append, History
from rivet_dagster.testing.plan_cases.runs import started_at
from rivet_dagster.testing.tables import TABLE, arrow_table, rows_of, sort, write

PLAN = History(keys=("id",), effective_at="at")
COLUMNS = "id BIGINT, price BIGINT, at DATE"
MODEL = Scd2(("id", "price", "at"), ("id",), effective_at="at")
CLOSING = replace(MODEL, close_missing=True)
FIRST = date(2026, 1, 1)
KEYS = range(10)


@pytest.fixture(scope="module")
def engine():
    options = {"threads": 1, "config": {"TimeZone": "Europe/Berlin"}}
    return DuckDBEngine(EngineSpec("duck", "duckdb", options=options))


@pytest.fixture
def session(engine):
    with engine.session() as session:
        yield session


def catalog_in(folder: Path) -> FilesystemCatalog:
    return FilesystemCatalog(CatalogSpec("warehouse", "filesystem", {"path": str(folder)}), folder)


class HistoryTable:
    """A table with a history that begins with one version of each of ``keys``, and what each run leaves shared."""

    def __init__(self, folder, session, keys=KEYS):
        self.catalog = catalog_in(folder)
        self.session = session
        self.model = []
        self.runs = 0
        self.write([(key, 0, FIRST) for key in keys])

    def write(self, rows, model=MODEL):
        """Write a batch, compare the table with the model, and return the files that were shared and that are new."""
        before = self.files() if self.runs else {}
        started = started_at(self.runs)
        record = write(self.catalog, self.session, model.plan, rows, str(self.runs), started, COLUMNS).record
        history = self.model
        self.model = model.run(history, [dict(zip(model.columns, row, strict=True)) for row in rows], started)
        self.runs += 1
        assert rows_of(self.catalog, self.session) == sort([tuple(row.values()) for row in self.model])
        assert (record.inserted, record.updated) == MODEL.difference(history, self.model)
        after = self.files()
        return before.keys() & after.keys(), after.keys() - before.keys()

    def change(self, key, day):
        """Write one changed row, which is not late."""
        return self.write([(key, day, FIRST + timedelta(day))])

    def change_ends(self, day):
        """Write a changed row of the first key and of the last."""
        return self.write(ends(day))

    def files(self):
        """Return the current files with the ends of their versions, by inode."""
        relation = self.catalog.read(self.catalog.current(TABLE))
        return {
            path.stat().st_ino: [row[-2] for row in read_file(self.session, path)]
            for folder in relation.paths
            for path in Path(folder).glob("*.parquet")
        }

    def closed(self):
        """Return the files that hold closed versions alone, and the number of files that hold both kinds."""
        files = self.files()
        closed = {file for file, ends in files.items() if None not in ends}
        return closed, sum(len({end is None for end in ends}) == 2 for ends in files.values())


def ends(day):
    return [(key, day, FIRST + timedelta(day)) for key in (KEYS[0], KEYS[-1])]


def read_file(session, path):
    table = session.to_arrow(session.load(Files("parquet", (str(path),))))
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.fixture
def loaded(session, monkeypatch):
    """Return the data files that the session loads from now on, for those of a version by name its folder's."""
    paths = []
    load = session.load

    def load_and_note(relation, projection=None):
        if isinstance(relation, Files):
            paths.extend(relation.paths)
        return load(relation, projection)

    monkeypatch.setattr(session, "load", load_and_note)
    return paths


@pytest.mark.slow
def test_a_batch_without_repeated_keys_is_queried_once(tmp_path, session, monkeypatch):
    table = HistoryTable(tmp_path, session)
    table.change_ends(1)
    queries = []
    rows = session.rows
    monkeypatch.setattr(session, "rows", lambda sql, *values: queries.append(sql) or rows(sql, *values))
    table.change_ends(2)
    assert len(queries) == 1, "which keys are late or have several rows"
    table.write([*ends(3), *ends(3)])
    assert len(queries) == 4, "whether rows of one time are repeated, and whether these are ambiguous, too"


@pytest.mark.slow
def test_a_small_batch_of_changed_rows_with_times_is_written_without_a_query_before(tmp_path, session, monkeypatch):
    catalog, columns = catalog_in(tmp_path), "id BIGINT, price BIGINT, at TIMESTAMP"
    queries, history = [], []
    rows = session.rows
    monkeypatch.setattr(session, "rows", lambda sql, *values: queries.append(sql) or rows(sql, *values))

    def run(number, *batch):
        nonlocal history
        queries.clear()
        batch = [(key, price, started_at(number)) for key, price in batch]
        write(catalog, session, PLAN, batch, str(number), started_at(number), columns)
        asked = len(queries)
        given = [dict(zip(MODEL.columns, row, strict=True)) for row in batch]
        history = MODEL.run(history, given, started_at(number))
        assert rows_of(catalog, session) == sort([tuple(row.values()) for row in history])
        return asked

    run(1, (1, 1), (2, 1), (None, 1))
    assert run(2, (1, 2), (None, 1)) == 0
    assert run(3, (1, 2), (2, 3), (None, 4)) == 0
    assert run(4, (1, 2), (5, 1)) == 1, "a new key"


def test_closed_versions_are_in_files_of_their_own(tmp_path, session):
    table = HistoryTable(tmp_path, session)
    table.change(1, 1)
    table.change(1, 2)
    closed, mixed = table.closed()
    assert (len(closed), mixed) == (2, 0)


@pytest.mark.slow
def test_closed_versions_of_other_keys_are_neither_read_nor_written_again(tmp_path, session, loaded):
    counts = []
    for runs in (2, 9):
        table = HistoryTable(tmp_path / str(runs), session)
        for day in range(1, runs + 1):
            table.change_ends(day)
        closed, _ = table.closed()
        assert len(closed) == runs
        loaded.clear()
        with table.catalog.begin(TABLE, session) as transaction:
            transaction.write(PLAN, session.from_value(arrow_table(ends(20), COLUMNS)))
            read = [Path(path) for path in loaded]
            files = [path.stat().st_ino for path in read if path.is_file()]
            assert not closed & {
                *files,
                *(file.stat().st_ino for path in read if path.is_dir() for file in path.iterdir()),
            }
            transaction.commit("last")
        shared = closed & table.files().keys()
        counts.append((len(files), len(table.files()) - runs, len(shared) - runs))
    assert counts[0] == counts[1]
    assert counts[0][1:] == (3, 0), "two files of open versions, and one of those that this run has closed"


@pytest.mark.slow
def test_a_late_row_has_closed_versions_of_its_keys_read_alone(tmp_path, session):
    table = HistoryTable(tmp_path, session)
    for day, key in enumerate((1, 5, 9), 1):
        table.change(key, day)
    closed, _ = table.closed()
    shared, _ = table.write([(5, 77, FIRST - timedelta(3)), (5, 78, FIRST + timedelta(1))])
    assert len(closed - shared) == 1, "that of the key 5"
    assert table.closed()[1] == 0


def test_a_new_key_beyond_those_of_the_files_is_no_reason_to_read_closed_versions(tmp_path, session):
    table = HistoryTable(tmp_path, session)
    table.change(1, 1)
    closed, _ = table.closed()
    shared, _ = table.write([(100, 1, FIRST + timedelta(9)), (None, 1, FIRST + timedelta(9))])
    assert closed <= shared


@pytest.mark.slow
@pytest.mark.parametrize("in_range", [True, False])
def test_a_key_whose_versions_are_all_closed_is_not_taken_for_a_new_one(tmp_path, session, in_range):
    table = HistoryTable(tmp_path, session)
    table.write([(key, 0, FIRST) for key in KEYS if key != KEYS[-1]], CLOSING)
    closed, _ = table.closed()
    assert len(closed) == 1
    others = [(5, 5, FIRST + timedelta(5)), (100, 1, FIRST)] if in_range else []
    shared, _ = table.write([(KEYS[-1], 7, FIRST + timedelta(1)), *others])
    assert not closed & shared


@pytest.mark.slow
def test_a_table_without_the_layout_gets_it(tmp_path, session):
    first = HistoryTable(tmp_path / "first", session)
    first.change(1, 1)
    first.change(2, 2)
    rows = rows_of(first.catalog, session)
    table = HistoryTable(tmp_path / "second", session, keys=())
    columns = f"{COLUMNS}, valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN"
    write(table.catalog, session, Append(), rows, "as earlier releases did", columns=columns)
    table.model, table.runs = first.model, first.runs
    assert table.closed()[1] == 1
    table.write([(3, 3, FIRST + timedelta(3)), (1, 9, FIRST - timedelta(1))])
    assert table.closed()[1] == 0
    closed, _ = table.closed()
    shared, _ = table.change(3, 4)
    assert closed <= shared


@pytest.mark.nightly
def test_the_same_batch_again_shares_every_file(tmp_path, session):
    table = HistoryTable(tmp_path, session)
    for day in range(1, 4):
        table.change(day, day)
    before = table.files().keys()
    assert table.change(3, 3) == (before, set())


@pytest.mark.nightly
def test_small_files_of_closed_versions_do_not_grow_in_number(tmp_path, session, monkeypatch):
    monkeypatch.setattr(staged_version, "MANY", 3)
    table = HistoryTable(tmp_path, session)
    closed = []
    for day in range(1, 7):
        table.change_ends(day)
        closed.append(len(table.closed()[0]))
        assert table.closed()[1] == 0
    # Two files remain: the one that was joined, and the one of the run itself.
    assert closed == [1, 2, 3, 4, 2, 3]


def batch_without(strategy, run, conflicts):
    """Return the rows of a batch without those of ambiguous keys."""
    times = [(strategy.at(row, run.started_at),) if strategy.effective_at else () for row in run.batch]
    return [row for row, at in zip(run.batch, times, strict=True) if (*strategy.key(row), *at) not in conflicts]


@pytest.mark.nightly
@settings(max_examples=examples(6, 60), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["DATE", "TIMESTAMP", None]))
def test_random_histories_are_those_of_the_model(engine, tmp_path_factory, seed, kind):
    found = histories(Random(seed), kind, keys=6)
    catalog = catalog_in(tmp_path_factory.mktemp("random"))
    strategy = found.strategy
    columns = ", ".join(f"{name} {kind_}" for name, kind_ in found.types.items())
    history = []
    with engine.session() as session:
        for number, run in enumerate(found.runs):
            own = batch_without(strategy, run, conflicts_of(strategy, run))
            rows = [tuple(row[name] for name in strategy.columns) for row in own]
            record = write(catalog, session, strategy.plan, rows, str(number), run.started_at, columns).record
            before, history = history, strategy.run(history, own, run.started_at)
            expected = sort([tuple(row[name] for name in strategy.history_columns) for row in history])
            assert rows_of(catalog, session) == expected
            assert (record.inserted, record.updated) == strategy.difference(before, history)
