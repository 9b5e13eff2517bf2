"""The conformance suite of catalogs with targets: subclass CatalogConformance in a test module of your own.

from rivet_dagster.testing.catalog import CatalogConformance

class TestMyCatalog(CatalogConformance):
    def new_catalog(self, folder):
        return MyCatalog(CatalogSpec("mine", "my_catalog", {...}), folder)

It needs a fixture ``session``: an open session of an engine that reads and writes the catalog's relations.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rivet_dagster.catalogs.capabilities.sources import ListsTables
from rivet_dagster.catalogs.capabilities.targets import HasTargets, HasVersions, VersionTransaction
from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import FilesPosition, VersionPosition
from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.model.storage import CURRENT, OLDER, WITHHELD, Provenance
from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    Refresh,
    Refreshed,
    ReplaceAll,
    Upsert,
    WritePlan,
)
from rivet_dagster.testing.environments import EnvironmentConformance
from rivet_dagster.testing.error_tables import ErrorTableConformance
from rivet_dagster.testing.plan_cases import CASES, HISTORIES, REFUSALS, PlanCase, RefusalCase
from rivet_dagster.testing.plan_cases.case import COLUMNS, STARTED, Rows, fields
from rivet_dagster.testing.plan_cases.runs import Histories, started_at
from rivet_dagster.testing.staging import StagingConformance
from rivet_dagster.testing.tables import (
    TABLE,
    arrow_table,
    columns_of,
    fill,
    in_order,
    read,
    rows_of,
    skip_unless_written,
    sort,
    write,
    write_before,
)


class CatalogConformance(ErrorTableConformance, EnvironmentConformance, StagingConformance):
    """The tests of ``HasTargets``; those of other capabilities are skipped if the catalog does not have them.

    ``columns_keep_order`` says whether a table that gets other columns has them in the order of the batch.
    """

    columns_keep_order = True

    def new_catalog(self, folder: Path) -> HasTargets:
        """Return a catalog for ``folder``, a new folder for each test; the same folder must have the same tables."""
        raise NotImplementedError

    def refused(self, case: PlanCase) -> str | None:
        """Return the code with which the catalog refuses a case of write plans, since its storage cannot do it."""
        return None

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
            published = transaction.commit("two", Provenance({"orders": FilesPosition("5be2")}, {"orders": "9c41"}))
        assert catalog.current(TABLE) == published
        assert (published.identity, published.rows_before, published.version) == ("two", 1, transaction.version)
        assert published.inputs == {"orders": FilesPosition("5be2")}
        assert published.code_versions == {"orders": "9c41"}
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
        """A reader that began with a version finishes with it after another one was published.

        Or it fails, if the catalog keeps the current version alone: it never reads rows of another one.
        """
        first = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        frame = session.load(catalog.read(first))
        write(catalog, session, ReplaceAll(), [(2, "b", 2)], "two")
        if not catalog.keeps_versions:
            for read_again in (lambda: session.to_arrow(frame), lambda: catalog.read(first)):
                with pytest.raises(RivetError) as caught:
                    read_again()
                assert caught.value.code == "RVT-401"
            return
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

    def test_what_is_committed_stays(self, catalog: HasTargets, session: EngineSession) -> None:
        """A second commit, or an abort after the first, changes nothing, whatever was published since."""
        transaction = catalog.begin(TABLE, session)
        fill(transaction, session, ReplaceAll(), [(1, "a", 1)])
        first = transaction.commit("one")
        transaction.abort()
        assert catalog.current(TABLE) == first
        second = write(catalog, session, ReplaceAll(), [(2, "b", 2)], "two")
        assert transaction.commit("one") == first
        transaction.abort()
        assert catalog.current(TABLE) == second

    def test_columns_without_null_take_null_later(self, catalog: HasTargets, session: EngineSession) -> None:
        """The rows of a query that cannot give NULL, and later rows that have some, are one table."""
        for value in ("'a'", "CAST(NULL AS STRING)"):
            with catalog.begin(TABLE, session) as transaction:
                row = f"SELECT CAST(1 AS BIGINT) AS id, {value} AS day, CAST(1 AS BIGINT) AS n"
                transaction.write(Append(), session.query(row), WriteContext(started=STARTED))
                transaction.commit(value)
        assert rows_of(catalog, session) == sort([(1, "a", 1), (1, None, 1)])

    def test_a_published_table_is_described_without_an_engine(
        self, catalog: HasTargets, session: EngineSession
    ) -> None:
        """Its columns, a data version that changes with the data, a URI, and the versions if the catalog lists them."""
        first = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        columns = catalog.columns(TABLE, {})
        if columns is not None:
            assert [field.name for field in columns] == [name for name, _ in first.statistics.columns]
            known = [(field.name, field.type) for field in columns if field.type is not None]
            assert set(known) <= set(first.statistics.columns)
        assert catalog.uri(TABLE)
        data_version = catalog.data_version(TABLE, {})
        assert catalog.data_version(TABLE, {}) == data_version
        write(catalog, session, ReplaceAll(), [(2, "b", 2)], "two")
        assert catalog.data_version(TABLE, {}) != data_version
        if isinstance(catalog, ListsTables):
            assert (TABLE in catalog.tables(TABLE[:3]), catalog.tables("no_such")) == (True, ())
        if isinstance(catalog, HasVersions):
            listed = [(version.state, version.identity, version.rows) for version in catalog.versions(TABLE)]
            older = [(OLDER, "one", 1)] if catalog.keeps_versions else []
            assert listed == [(CURRENT, "two", 1), *older]

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
        """The rows, the columns, and how many rows were inserted, updated and deleted."""
        skip_unless_written(catalog, case.plan)
        before = write_before(catalog, session, case.written_by, case.before, case.columns)
        if (code := self.refused(case)) is not None:
            with pytest.raises(RivetError) as caught:
                write(catalog, session, case.plan, case.batch, "run", columns=case.batch_columns or case.columns)
            assert (caught.value.code, catalog.current(TABLE)) == (code, before)
            return
        published = write(catalog, session, case.plan, case.batch, "run", columns=case.batch_columns or case.columns)
        rows = session.to_arrow(session.load(catalog.read(published)))
        columns = case.columns_after or case.columns
        if not self.columns_keep_order:
            assert len(rows.schema) == len(fields(columns))
            rows = rows.select([name for name, _ in fields(columns)])
        assert in_order(rows) == sort(case.after)
        assert columns_of(rows) == columns
        assert (published.record.inserted, published.record.updated, published.record.deleted) == case.counts
        assert published.statistics.rows == len(case.after)

    @pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.name)
    def test_a_batch_that_does_not_fit_is_refused(
        self, catalog: HasTargets, session: EngineSession, case: RefusalCase
    ) -> None:
        """The table stays as it was."""
        skip_unless_written(catalog, case.plan)
        before = write_before(catalog, session, ReplaceAll(), case.before, case.columns)
        with pytest.raises(RivetError) as caught:
            write(catalog, session, case.plan, case.batch, "run", columns=case.batch_columns or case.columns)
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.code == case.code
        assert [text for text in case.named if text not in diagnostic.message] == []
        assert [text for text in case.unnamed if text in diagnostic.message] == []
        assert catalog.current(TABLE) == before

    def test_a_full_refresh_is_a_version_like_others(self, catalog: HasTargets, session: EngineSession) -> None:
        """Readers see the old rows until the commit; an aborted one leaves nothing; an older version comes back."""
        plan = Refresh(plan=Upsert(keys=("id",)))
        skip_unless_written(catalog, plan)
        first = write(catalog, session, Upsert(keys=("id",)), [(1, "a", 1), (2, "b", 2)], "first")
        wider, rows = "id BIGINT, n STRING, more BIGINT", [(2, "x", 3), (2, "x", 3)]
        for end in ("abort", "commit"):
            with catalog.begin(TABLE, session) as transaction:
                fill(transaction, session, plan, rows, columns=wider)
                assert transaction.batch.statistics.rows == 2
                assert read(session, transaction.whole.relation) == [(2, "x", 3)]
                assert catalog.current(TABLE) == first
                assert rows_of(catalog, session) == [(1, "a", 1), (2, "b", 2)]
                if end == "commit":
                    transaction.commit("second")
        assert rows_of(catalog, session) == [(2, "x", 3)]
        later = write(catalog, session, Upsert(keys=("id",)), [(2, "y", 4), (3, "z", 5)], "later", columns=wider)
        assert (later.record.inserted, later.record.updated) == (1, 1)
        assert rows_of(catalog, session) == [(2, "y", 4), (3, "z", 5)]
        if isinstance(catalog, HasVersions):
            older = ["second"] if catalog.keeps_versions else []
            assert [version.identity for version in catalog.versions(TABLE)][:2] == ["later", *older]

    @pytest.mark.parametrize(
        "plan", [Upsert(keys=("id",), order_by=("n",)), DeleteInsert(columns=("id",)), AppendNewer(column="n")]
    )
    def test_a_full_refresh_of_partitions(self, catalog: HasTargets, session: EngineSession, plan: Refreshed) -> None:
        """The rows of the window become what the plan makes of no rows; the others stay."""
        skip_unless_written(catalog, Refresh(plan=plan))
        write(catalog, session, ReplaceAll(), [(1, "a", 9), (2, "a", 9), (3, "b", 9), (1, "b", 9), (4, None, 9)], "one")
        batch: Rows = [(1, "a", 1), (1, "a", 2), (5, "a", 3)]
        after = [(1, "a", 2), (5, "a", 3)] if isinstance(plan, Upsert) else [*batch]
        window = Window(Partitions("static", "day", values=("a", "b")), ("a",))
        with catalog.begin(TABLE, session) as transaction:
            context = WriteContext(window=window, started=STARTED)
            transaction.write(Refresh(plan=plan), session.from_value(arrow_table(batch, COLUMNS)), context)
            record = transaction.commit("two").record
        assert rows_of(catalog, session) == sort([*after, (3, "b", 9), (1, "b", 9), (4, None, 9)])
        assert (record.inserted, record.updated, record.deleted) == (len(after), 0, 2)

    @pytest.mark.parametrize("histories", HISTORIES, ids=lambda histories: histories.name)
    def test_the_meaning_of_a_history(self, catalog: HasTargets, session: EngineSession, histories: Histories) -> None:
        """The versions that each run leaves, and how many it inserted and updated."""
        skip_unless_written(catalog, histories.plan)
        versions: dict[tuple[Any, Any], tuple[Any, ...]] = {}
        valid_from = len(fields(histories.columns))
        for run in range(histories.runs):
            batch, started = histories.batch(run), started_at(run)
            record = write(catalog, session, histories.plan, batch, str(run), started, histories.columns).record
            before, versions = versions, {(row[0], row[valid_from]): row for row in rows_of(catalog, session)}
            inserted = Counter(key for key, _ in versions.keys() - before.keys())
            updated = Counter(key for (key, since), row in before.items() if versions.get((key, since)) != row)
            assert (record.inserted, record.updated, record.deleted) == (inserted.total(), updated.total(), 0)
            for case in histories.cases:
                if len(case.runs) == run + 1:
                    assert [row for row in versions.values() if row[0] == case.name] == sort(case.after())
                    assert (inserted[case.name], updated[case.name]) == case.changed, case.name

    def test_an_older_version_comes_back(self, catalog: HasTargets, session: EngineSession) -> None:
        """An older version is published again as a new version."""
        if not isinstance(catalog, HasVersions):
            pytest.skip("it has no versions")
        first = write(catalog, session, ReplaceAll(), [(1, "a", 1)], "one")
        write(catalog, session, ReplaceAll(), [(2, "b", 2)], "two")
        if not catalog.keeps_versions:
            with pytest.raises(RivetError) as caught:
                catalog.restage(TABLE, first.version)
            assert caught.value.code == "RVT-408"
            return
        assert first.version in [version.name for version in catalog.versions(TABLE) if version.state == OLDER]
        with catalog.restage(TABLE, first.version) as transaction:
            transaction.commit("rollback")
        assert rows_of(catalog, session) == [(1, "a", 1)]

    def test_a_withheld_version_is_published_later(self, catalog: HasTargets, session: EngineSession) -> None:
        """It is published after the version that is current by then."""
        if not isinstance(catalog, HasVersions):
            pytest.skip("it has no versions")
        inputs = {"orders": VersionPosition("raw", {"orders": "1"})}
        with catalog.begin(TABLE, session) as transaction:
            assert isinstance(transaction, VersionTransaction)
            fill(transaction, session, ReplaceAll(), [(1, "a", 1)])
            transaction.withhold("one", Provenance(inputs, {"orders": "9c41"}))
        transaction.abort()
        assert [version.state for version in catalog.versions(TABLE)] == [WITHHELD]
        write(catalog, session, ReplaceAll(), [(2, "b", 2)], "two")
        with catalog.take_up(TABLE, transaction.version) as taken_up:
            published = taken_up.commit("by hand")
        assert rows_of(catalog, session) == [(1, "a", 1)]
        assert (published.inputs, published.code_versions) == (inputs, {"orders": "9c41"})
        versions = [catalog.published_by(TABLE, identity) for identity in ("by hand", "one")]
        assert [version and version.version for version in versions] == [published.version] * 2
