"""The conformance suite of catalogs with targets: subclass CatalogConformance in a test module of your own.

from rivet_dagster.testing.catalog import CatalogConformance

class TestMyCatalog(CatalogConformance):
    def new_catalog(self, folder):
        return MyCatalog(CatalogSpec("mine", "my_catalog", {...}), folder)

It needs a fixture ``session``: an open session of an engine that reads and writes the catalog's relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction, WriteContext
from rivet_dagster.catalogs.capabilities.versions import HasVersions, VersionTransaction
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import FilesPosition
from rivet_dagster.model.storage import OLDER, WITHHELD, Published
from rivet_dagster.model.write_plan import Append, ReplaceAll, Upsert, WritePlan
from rivet_dagster.testing.plan_cases import CASES, EARLIER, HISTORY, HISTORY_AFTER, HISTORY_BATCHES, STARTED, PlanCase

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("n", pa.int64())])
TABLE = "orders"

Rows = Sequence[tuple[Any, ...]]


class CatalogConformance:
    """The tests of ``HasTargets``; those of other capabilities are skipped if the catalog does not have them."""

    def new_catalog(self, folder: Path) -> HasTargets:
        """Return a catalog for ``folder``, a new folder for each test; the same folder must have the same tables."""
        raise NotImplementedError

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> HasTargets:
        """The catalog of a test."""
        return self.new_catalog(tmp_path)

    def test_nothing_is_published_at_first(self, catalog: HasTargets) -> None:
        """A table that was never written has no version."""
        assert catalog.current(TABLE) is None
        assert catalog.published_by(TABLE, "run") is None

    def test_what_is_written_is_seen_when_it_is_committed(self, catalog: HasTargets, session: EngineSession) -> None:
        """Readers see the old rows until the commit, then the new ones."""
        old = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        with catalog.begin(TABLE, session) as transaction:
            fill(transaction, session, ReplaceAll(), [(2, "b", 2)])
            assert catalog.current(TABLE) == old
            assert rows_of(catalog, session) == [(1, "a", 1)]
            assert read(session, transaction.whole.relation) == [(2, "b", 2)]
            assert transaction.whole.statistics.rows == 1
            published = transaction.commit("two", {"orders": FilesPosition("5be2")})
        assert catalog.current(TABLE) == published
        assert (published.identity, published.rows_before, published.version) == ("two", 1, transaction.version)
        assert published.inputs == {"orders": FilesPosition("5be2")}
        assert rows_of(catalog, session) == [(2, "b", 2)]

    def test_another_process_sees_the_same(self, catalog: HasTargets, session: EngineSession, tmp_path: Path) -> None:
        """The published version is stored, not only known to the object that published it."""
        published = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        assert self.new_catalog(tmp_path).current(TABLE) == published

    def test_a_retry_finds_what_its_run_published(self, catalog: HasTargets, session: EngineSession) -> None:
        """Even after other versions have been published."""
        first = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        write(catalog, session, ReplaceAll(), [(2, "b", 2)], "two")
        again = catalog.published_by(TABLE, "one")
        assert again is not None
        assert (again.version, again.identity) == (first.version, "one")

    def test_a_version_that_is_read_stays_as_it_is(self, catalog: HasTargets, session: EngineSession) -> None:
        """A reader that began with a version finishes with it after another one was published."""
        first = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        frame = session.load(catalog.read(first))
        write(catalog, session, ReplaceAll(), [(2, "b", 2)], "two")
        assert in_order(session.to_arrow(frame)) == [(1, "a", 1)]

    def test_who_is_overtaken_does_not_publish(self, catalog: HasTargets, session: EngineSession) -> None:
        """A transaction whose base is not current any more raises RVT-405 and publishes nothing."""
        with catalog.begin(TABLE, session) as slow:
            fill(slow, session, Append(), [(1, "a", 1)])
            write(catalog, session, Append(), [(2, "b", 2)], "fast")
            with pytest.raises(RivetError) as caught:
                slow.commit("slow")
        assert caught.value.code == "RVT-405"
        assert rows_of(catalog, session) == [(2, "b", 2)]

    @pytest.mark.parametrize("plan", [ReplaceAll(), Upsert(keys=("id",))])
    def test_what_is_aborted_leaves_nothing(self, catalog: HasTargets, session: EngineSession, plan: WritePlan) -> None:
        """Whether it is aborted by an error or by ``abort``: the table stays as it was."""
        before = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        with suppress(ZeroDivisionError), catalog.begin(TABLE, session) as transaction:
            fill(transaction, session, plan, [(1, "a", 2)])
            raise ZeroDivisionError
        aborted = catalog.begin(TABLE, session)
        fill(aborted, session, plan, [(1, "a", 2)])
        aborted.abort()
        aborted.abort()
        assert catalog.current(TABLE) == before
        if isinstance(catalog, HasVersions):
            assert [version.name for version in catalog.versions(TABLE)] == [before.version]
        assert write(catalog, session, plan, [(1, "a", 3)], "two").statistics.rows == 1

    def test_the_batch_is_readable_by_itself(self, catalog: HasTargets, session: EngineSession) -> None:
        """The batch can be read until the transaction ends."""
        write(catalog, session, ReplaceAll(), [(1, "a", 1), (2, "b", 2)], "one")
        with catalog.begin(TABLE, session) as transaction:
            fill(transaction, session, Upsert(keys=("id",)), [(2, "b", 2), (3, "c", 3)])
            assert read(session, transaction.batch.relation) == [(2, "b", 2), (3, "c", 3)]
            assert transaction.batch.statistics.rows == 2
            assert read(session, transaction.whole.relation) == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]

    def test_a_sign_of_life_changes_nothing(self, catalog: HasTargets, session: EngineSession) -> None:
        """Heartbeats can be sent before and after a write."""
        with catalog.begin(TABLE, session) as transaction:
            transaction.beat()
            fill(transaction, session, ReplaceAll(), [(1, "a", 1)])
            transaction.beat()
            transaction.commit("one")
        assert rows_of(catalog, session) == [(1, "a", 1)]

    def test_the_table_that_is_evicted_is_gone(self, catalog: HasTargets, session: EngineSession) -> None:
        """Unless another version has been published since."""
        first = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        second = write(catalog, session, ReplaceAll(), [(2, "b", 2)], "two")
        catalog.evict(first)
        assert catalog.current(TABLE) == second
        catalog.evict(second)
        assert catalog.current(TABLE) is None

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_the_meaning_of_a_write_plan(self, catalog: HasTargets, session: EngineSession, case: PlanCase) -> None:
        """The rows of the table, and the numbers of rows that were inserted, updated and deleted."""
        if type(case.plan) not in catalog.write_plans:
            pytest.skip(f"{catalog.type} does not carry out {type(case.plan).__name__}")
        write(catalog, session, ReplaceAll(), case.before, "before")
        record = write(catalog, session, case.plan, case.batch, "run").record
        assert rows_of(catalog, session) == sort(case.after)
        assert (record.inserted, record.updated, record.deleted) == case.counts

    def test_the_meaning_of_a_history(self, catalog: HasTargets, session: EngineSession) -> None:
        """A change ends the earlier version at the time when the run began."""
        if type(HISTORY) not in catalog.write_plans:
            pytest.skip(f"{catalog.type} keeps no history")
        for started, batch in zip((EARLIER, STARTED), HISTORY_BATCHES, strict=True):
            write(catalog, session, HISTORY, batch, str(started), started)
        assert rows_of(catalog, session) == sort(HISTORY_AFTER)

    @pytest.mark.parametrize(
        ("plan", "batch", "code"), [(Upsert(keys=("id",)), [(1, "a", 1), (1, "a", 2)], "RVT-515")], ids=["ambiguous"]
    )
    def test_a_batch_that_does_not_fit_is_refused(
        self, catalog: HasTargets, session: EngineSession, plan: WritePlan, batch: Rows, code: str
    ) -> None:
        """The table stays as it was."""
        before = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        with pytest.raises(RivetError) as caught:
            write(catalog, session, plan, batch, "two")
        assert caught.value.code == code
        assert catalog.current(TABLE) == before

    def test_an_older_version_comes_back(self, catalog: HasTargets, session: EngineSession) -> None:
        """An older version is published again as a new version."""
        if not isinstance(catalog, HasVersions):
            pytest.skip("it has no versions")
        first = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        write(catalog, session, ReplaceAll(), [(2, "b", 2)], "two")
        assert first.version in [version.name for version in catalog.versions(TABLE) if version.state == OLDER]
        with catalog.restage(TABLE, first.version) as transaction:
            transaction.commit("rollback")
        assert rows_of(catalog, session) == [(1, "a", 1)]

    def test_a_withheld_version_is_published_later(self, catalog: HasTargets, session: EngineSession) -> None:
        """It is published after the version that is current by then."""
        if not isinstance(catalog, HasVersions):
            pytest.skip("it has no versions")
        with catalog.begin(TABLE, session) as transaction:
            assert isinstance(transaction, VersionTransaction)
            fill(transaction, session, ReplaceAll(), [(1, "a", 1)])
            transaction.withhold("one")
        assert [version.state for version in catalog.versions(TABLE)] == [WITHHELD]
        write(catalog, session, ReplaceAll(), [(2, "b", 2)], "two")
        with catalog.take_up(TABLE, transaction.version) as taken_up:
            taken_up.commit("by hand")
        assert rows_of(catalog, session) == [(1, "a", 1)]


def write(
    catalog: HasTargets,
    session: EngineSession,
    plan: WritePlan,
    rows: Rows,
    identity: str,
    started: datetime | None = None,
) -> Published:
    """Write a batch and publish it."""
    with catalog.begin(TABLE, session) as transaction:
        fill(transaction, session, plan, rows, started)
        return transaction.commit(identity)


def fill(
    transaction: TableTransaction, session: EngineSession, plan: WritePlan, rows: Rows, started: datetime | None = None
) -> None:
    """Write a batch of ``(id, day, n)``."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)]
    frame = session.from_value(pa.table(arrays, schema=SCHEMA))
    transaction.write(plan, frame, WriteContext(started=started))


def rows_of(catalog: HasTargets, session: EngineSession) -> list[tuple[Any, ...]]:
    """Return the rows that readers see."""
    published = catalog.current(TABLE)
    assert published is not None
    return read(session, catalog.read(published))


def read(session: EngineSession, relation: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a relation, ordered by their values."""
    return in_order(session.to_arrow(session.load(relation)))


def in_order(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table, ordered by their values."""
    return sort([tuple(row.values()) for row in table.to_pylist()])


def sort(rows: Rows) -> list[tuple[Any, ...]]:
    """Return the rows ordered by their values, NULLs first."""
    return sorted(rows, key=lambda row: [(value is not None, str(value)) for value in map(_plain, row)])


def _plain(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value
