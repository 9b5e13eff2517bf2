"""The tests of the conformance suite of catalogs that stage versions for runs; others skip them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.staging import PublishesTogether, StagedTransaction, StagesForRuns
from rivet_dagster.catalogs.capabilities.targets import ErrorTransaction, HasErrorTables, HasTargets, HasVersions
from rivet_dagster.catalogs.capabilities.upkeep import Sweeps
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import VersionPosition
from rivet_dagster.model.storage import CURRENT, OLDER, STAGED, WITHHELD, Provenance, Published
from rivet_dagster.model.write_plan import ReplaceAll, Upsert, WritePlan
from rivet_dagster.testing.error_tables import ERRORS, errors, errors_seen, read_errors
from rivet_dagster.testing.tables import TABLE, fill, read, rows_of, write

OTHER = "customers"

INPUTS = {"orders": VersionPosition("raw", {"orders": "1"})}


class StagingConformance:
    """The tests of ``StagesForRuns``."""

    def new_catalog(self, folder: Path) -> HasTargets:
        """Return a catalog for ``folder``."""
        raise NotImplementedError

    @pytest.fixture
    def staging(self, catalog: HasTargets) -> StagesForRuns:
        """The catalog of a test, if it has the capability."""
        if not isinstance(catalog, StagesForRuns):
            pytest.skip("it does not stage versions for runs")
        return catalog

    @pytest.mark.parametrize("plan", [ReplaceAll(), Upsert(keys=("id",))])
    def test_a_staged_version_is_read_by_its_run_alone(
        self, staging: StagesForRuns, session: EngineSession, tmp_path: Path, plan: WritePlan
    ) -> None:
        """Readers see the published rows; whoever knows the identity reads the staged ones, in any process."""
        before = write(staging, session, ReplaceAll(), [(1, "a", 1), (2, "b", 2)], "before")
        staged = stage(staging, session, [(2, "b", 3)], "run", plan)
        elsewhere = self.new_catalog(tmp_path)
        assert isinstance(elsewhere, StagesForRuns)
        for catalog in (staging, elsewhere):
            assert catalog.current(TABLE) == before
            assert catalog.published_by(TABLE, "run") is None
            assert catalog.staged_by(TABLE, "other") is None
            assert catalog.staged_by(TABLE, "run") == staged
        rest = [] if isinstance(plan, ReplaceAll) else [(1, "a", 1)]
        assert read(session, elsewhere.read(staged)) == [*rest, (2, "b", 3)]
        assert (staged.identity, staged.rows_before, staged.statistics.rows) == ("run", 2, len(rest) + 1)
        assert staged.inputs == INPUTS
        assert _states(staging) == [CURRENT, STAGED]

    @pytest.mark.parametrize("plan", [ReplaceAll(), Upsert(keys=("id",))])
    def test_a_staged_version_is_published_as_it_was_staged(
        self, staging: StagesForRuns, session: EngineSession, plan: WritePlan
    ) -> None:
        """With its rows, its record and its inputs, under the identity of its run; a second time changes nothing."""
        write(staging, session, ReplaceAll(), [(1, "a", 1), (2, "b", 2)], "before")
        staged = stage(staging, session, [(2, "b", 3)], "run", plan)
        transaction = staging.take_up_staged(TABLE, staged.version)
        transaction.check_base()
        published = transaction.commit("run")
        assert published == staged
        assert staging.current(TABLE) == published
        assert staging.published_by(TABLE, "run") == published
        assert staging.staged_by(TABLE, "run") is None
        assert _states(staging) == [CURRENT, *_older(staging)]
        with pytest.raises(RivetError) as caught:
            staging.take_up_staged(TABLE, staged.version)
        assert caught.value.code == "RVT-418"

    def test_the_first_version_of_a_table_is_staged(self, staging: StagesForRuns, session: EngineSession) -> None:
        """Nobody finds a table before it is published."""
        staged = stage(staging, session, [(1, "a", 1)], "run")
        assert staging.current(TABLE) is None
        assert read(session, staging.read(staged)) == [(1, "a", 1)]
        staging.take_up_staged(TABLE, staged.version).commit("run")
        assert rows_of(staging, session) == [(1, "a", 1)]

    def test_errors_are_staged_with_their_rows(self, staging: StagesForRuns, session: EngineSession) -> None:
        """Readers see the errors that were published until the last step publishes both."""
        if not isinstance(staging, HasErrorTables):
            pytest.skip("it has no error tables")
        for number in (1, 2, 3):
            with staging.begin(TABLE, session) as transaction:
                assert isinstance(transaction, ErrorTransaction)
                assert isinstance(transaction, StagedTransaction)
                fill(transaction, session, ReplaceAll(), [(number, "a", number)])
                transaction.write_errors(ERRORS, session.from_value(errors([str(number)])))
                staged = transaction.stage(f"run {number}")
            before = None if number == 1 else [str(number - 1)]
            assert errors_seen(staging, session) == before
            relation = staging.errors_of(staged)
            assert relation is not None
            assert read_errors(session, relation) == [str(number)]
            if isinstance(staging, Sweeps):
                assert staging.sweep() == ()
            published = staging.take_up_staged(TABLE, staged.version).commit(f"run {number}")
            assert staging.errors_of(published) is not None
            assert errors_seen(staging, session) == [str(number)]
            assert rows_of(staging, session) == [(number, "a", number)]

    def test_a_run_that_is_overtaken_is_told_so(self, staging: StagesForRuns, session: EngineSession) -> None:
        """By ``check_base`` as by ``commit``; a version that is withheld then is published upon the other one."""
        write(staging, session, ReplaceAll(), [(1, "a", 1)], "before")
        staged = stage(staging, session, [(2, "b", 2)], "slow")
        write(staging, session, ReplaceAll(), [(3, "c", 3)], "fast")
        transaction = staging.take_up_staged(TABLE, staged.version)
        for attempt in (transaction.check_base, lambda: transaction.commit("slow")):
            with pytest.raises(RivetError) as caught:
                attempt()
            assert caught.value.code == "RVT-405"
        assert rows_of(staging, session) == [(3, "c", 3)]
        staging.withhold_staged(TABLE, staged.version)
        assert staging.staged_by(TABLE, "slow") is None
        assert not staging.keep_alive(TABLE, staged.version)
        assert _states(staging) == [CURRENT, *_older(staging), WITHHELD]
        with capable(staging, HasVersions).take_up(TABLE, staged.version) as by_hand:
            by_hand.commit("by hand")
        assert rows_of(staging, session) == [(2, "b", 2)]
        assert staging.published_by(TABLE, "slow") is not None

    def test_no_sweep_removes_what_is_kept_alive(self, staging: StagesForRuns, session: EngineSession) -> None:
        """Nor does the beginning of another run, which sweeps its table."""
        staged = stage(staging, session, [(1, "a", 1)], "run")
        assert staging.keep_alive(TABLE, staged.version)
        if isinstance(staging, Sweeps):
            assert staging.sweep() == ()
            assert staging.building() != ()
        staging.begin(TABLE, session).abort()
        assert staging.staged_by(TABLE, "run") == staged
        assert not staging.keep_alive(TABLE, "00000099-5be2f7c3")
        together = staging.keep_all_alive({staged.version, "00000099-5be2f7c3"})
        assert together is None or together == {staged.version}

    @pytest.fixture
    def together(self, staging: StagesForRuns) -> StagesForRuns:
        """The catalog of a test, if it publishes tables in one commit."""
        if not (isinstance(staging, PublishesTogether) and staging.publishes_together):
            pytest.skip("it publishes tables one after another")
        return staging

    def test_tables_are_published_in_one_commit(self, together: StagesForRuns, session: EngineSession) -> None:
        """A new one, one that is merged into, and their errors, as they were staged; others may stage meanwhile."""
        write(together, session, ReplaceAll(), [(1, "a", 1), (2, "b", 2)], "before")
        merged = stage(together, session, [(2, "b", 3)], "run", Upsert(keys=("id",)))
        with together.begin(OTHER, session) as transaction:
            fill(transaction, session, ReplaceAll(), [(4, "d", 4)])
            if isinstance(transaction, ErrorTransaction):
                transaction.write_errors(ERRORS, session.from_value(errors(["bad"])))
            made = transaction.stage("run")
        taken = [_taken_up(together, version) for version in (merged, made)]
        waits = stage(together, session, [(9, "i", 9)], "other")
        published = capable(together, PublishesTogether).publish_together(
            [(transaction, "run") for transaction in taken]
        )
        assert published == (merged, made)
        assert [together.current(table) for table in (TABLE, OTHER)] == [merged, made]
        assert read(session, together.read(merged)) == [(1, "a", 1), (2, "b", 3)]
        assert read(session, together.read(made)) == [(4, "d", 4)]
        if isinstance(together, HasErrorTables):
            relation = together.errors_of(made)
            assert relation is not None
            assert read_errors(session, relation) == ["bad"]
        assert [together.staged_by(table, "run") for table in (TABLE, OTHER)] == [None, None]
        assert together.staged_by(TABLE, "other") == waits
        assert [transaction.commit("run") for transaction in taken] == list(published)
        together.take_up_staged(TABLE, waits.version).abort()
        if isinstance(together, Sweeps):
            assert together.building() == ()

    def test_of_tables_in_one_commit_none_is_published_if_one_was_overtaken(
        self, together: StagesForRuns, session: EngineSession
    ) -> None:
        """The error names it, and all of them can be withheld."""
        write(together, session, ReplaceAll(), [(1, "a", 1)], "before")
        slow = [stage(together, session, [(2, "b", 2)], "slow", table=table) for table in (OTHER, TABLE)]
        taken = [_taken_up(together, version) for version in slow]
        write(together, session, ReplaceAll(), [(3, "c", 3)], "fast")
        with pytest.raises(RivetError, match=TABLE) as caught:
            capable(together, PublishesTogether).publish_together([(transaction, "slow") for transaction in taken])
        assert caught.value.code == "RVT-405"
        assert OTHER not in str(caught.value)
        assert (together.current(OTHER), rows_of(together, session)) == (None, [(3, "c", 3)])
        for version in slow:
            together.withhold_staged(version.table, version.version)
        with capable(together, HasVersions).take_up(OTHER, slow[0].version) as by_hand:
            by_hand.commit("by hand")
        assert together.published_by(OTHER, "slow") is not None


def _states(catalog: StagesForRuns) -> list[str]:
    return [version.state for version in capable(catalog, HasVersions).versions(TABLE)]


def _older(catalog: StagesForRuns) -> list[str]:
    return [OLDER] if catalog.keeps_versions else []


def _taken_up(catalog: StagesForRuns, staged: Published) -> StagedTransaction:
    return catalog.take_up_staged(staged.table, staged.version)


def stage(
    catalog: StagesForRuns,
    session: EngineSession,
    rows: list[tuple[int, str, int]],
    identity: str,
    plan: WritePlan | None = None,
    table: str = TABLE,
) -> Published:
    """Stage a batch."""
    with catalog.begin(table, session) as transaction:
        fill(transaction, session, plan or ReplaceAll(), rows)
        return transaction.stage(identity, Provenance(INPUTS))
