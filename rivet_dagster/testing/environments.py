"""The tests of the conformance suite of catalogs that have environments; others skip them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.sources import ListsTables
from rivet_dagster.catalogs.capabilities.staging import StagedTransaction, StagesForRuns, publishes_together
from rivet_dagster.catalogs.capabilities.targets import HasTargets, HasVersions, HasWatermarks
from rivet_dagster.catalogs.environments.catalog import HasEnvironments
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import VersionPosition
from rivet_dagster.model.storage import STAGED, Provenance, Published
from rivet_dagster.model.watermark import Override
from rivet_dagster.model.write_plan import Append, Refresh, ReplaceAll, Upsert
from rivet_dagster.testing.staging import stage
from rivet_dagster.testing.tables import TABLE, fill, read, rows_of, write

NAME, OTHER = "pr-7", "pr_8"
OLD, NEW = [(1, "a", 1)], [(2, "b", 2)]


class EnvironmentConformance:
    """The tests of ``HasEnvironments``."""

    @pytest.fixture
    def with_environments(self, catalog: HasTargets) -> HasEnvironments:
        """The catalog of a test, if it has the capability."""
        if not isinstance(catalog, HasEnvironments) or catalog.environment_storage is None:
            pytest.skip("it has no environments")
        return catalog

    def test_a_table_that_was_not_built_there_is_the_bases(
        self, with_environments: HasEnvironments, session: EngineSession
    ) -> None:
        """Whatever the base publishes meanwhile; an environment begins empty."""
        catalog, there = with_environments, _in(with_environments, NAME)
        assert there.current(TABLE) is None
        old = write(catalog, session, ReplaceAll(), OLD, "one")
        assert there.current(TABLE) == old
        assert rows_of(there, session) == OLD
        assert there.data_version(TABLE, {}) == catalog.data_version(TABLE, {})
        assert read(session, there.relation(TABLE, {})) == OLD
        assert [environment.tables for environment in catalog.environments()] == [()]
        assert catalog.built(NAME) == ()

    def test_readers_of_the_base_see_nothing_of_it(
        self, with_environments: HasEnvironments, session: EngineSession
    ) -> None:
        """Nor do readers in another environment; a plan that adds rows adds them to those of the base."""
        catalog, there, other = with_environments, _in(with_environments, NAME), _in(with_environments, OTHER)
        old = write(catalog, session, ReplaceAll(), OLD, "one")
        before = catalog.data_version(TABLE, {})
        new = write(there, session, Append(), NEW, "two")
        assert (new.environment, there.current(TABLE)) == (NAME, new)
        assert sorted(rows_of(there, session)) == OLD + NEW
        assert read(session, there.relation(TABLE, {})) == OLD + NEW
        assert (catalog.current(TABLE), other.current(TABLE)) == (old, old)
        assert (rows_of(catalog, session), rows_of(other, session)) == (OLD, OLD)
        assert catalog.data_version(TABLE, {}) == before != there.data_version(TABLE, {})
        assert there.published_by(TABLE, "one") is None  # no run there has
        assert catalog.published_by(TABLE, "two") is None
        if isinstance(catalog, HasVersions):
            assert [version.name for version in catalog.versions(TABLE)] == [old.version]

    def test_what_was_built_there_is_known(
        self, with_environments: HasEnvironments, session: EngineSession, tmp_path: Path
    ) -> None:
        """Also to another process, with the version of the base that it was built upon; be it by a full refresh."""
        catalog, there = with_environments, _in(with_environments, NAME)
        write(catalog, session, ReplaceAll(), OLD, "one")
        refresh = Refresh(plan=Upsert(keys=("id",)))
        new = write(there, session, refresh if Refresh in catalog.write_plans else ReplaceAll(), NEW, "two")
        again = self.new_catalog(tmp_path)  # type: ignore[attr-defined]
        (environment,) = again.environments()
        assert (environment.name, environment.profile, environment.tables) == (NAME, "default", (TABLE,))
        assert environment.created_at <= environment.used_at
        (table,) = again.built(NAME)
        assert (table.table, table.current, table.moved, table.same) == (TABLE, new, False, False)
        assert table.base is not None
        view = again.in_environment(NAME)
        assert [read(session, view.read(version)) for version in (table.base, table.current)] == [OLD, NEW]
        again.merge(NAME)
        assert rows_of(catalog, session) == NEW

    def test_the_base_it_was_built_upon_stays_readable(
        self, with_environments: HasEnvironments, session: EngineSession
    ) -> None:
        """Even if the base has published many times since, and the environment, too."""
        catalog, there = with_environments, _in(with_environments, NAME)
        write(catalog, session, ReplaceAll(), OLD, "one")
        for number in range(4):
            write(there, session, ReplaceAll(), NEW, f"there {number}")
            write(catalog, session, ReplaceAll(), [(9, "z", number)], f"base {number}")
        (table,) = catalog.built(NAME)
        assert table.moved
        assert table.base is not None
        if not catalog.keeps_versions:
            assert _refused(lambda: there.read(table.base)) == "RVT-401"
            return
        assert read(session, there.read(table.base)) == OLD

    def test_a_failed_run_builds_nothing(self, with_environments: HasEnvironments, session: EngineSession) -> None:
        """The table is still the base's, and the next run builds upon what the base is by then."""
        catalog, there = with_environments, _in(with_environments, NAME)
        write(catalog, session, ReplaceAll(), OLD, "one")
        with there.begin(TABLE, session) as transaction:
            fill(transaction, session, ReplaceAll(), NEW)
        assert catalog.built(NAME) == ()
        write(catalog, session, ReplaceAll(), [(3, "c", 3)], "two")
        assert rows_of(there, session) == [(3, "c", 3)]
        write(there, session, Append(), NEW, "three")
        assert sorted(rows_of(there, session)) == [*NEW, (3, "c", 3)]
        (table,) = catalog.built(NAME)
        assert not table.moved

    def test_a_merge_publishes_its_tables(self, with_environments: HasEnvironments, session: EngineSession) -> None:
        """Rows, inputs and code are those of the environment; then it is over."""
        catalog, there = with_environments, _in(with_environments, NAME)
        write(catalog, session, ReplaceAll(), OLD, "one")
        inputs, code = {"raw": VersionPosition("raw", {"raw": "1"})}, {"orders": "5be2"}
        with there.begin(TABLE, session) as transaction:
            fill(transaction, session, Append(), NEW)
            transaction.commit("two", Provenance(inputs, code))
        (merged,) = catalog.merge(NAME)
        assert (merged.environment, merged.inputs, merged.code_versions) == (None, inputs, code)
        assert catalog.current(TABLE) == merged
        assert sorted(rows_of(catalog, session)) == OLD + NEW
        assert (merged.rows_before, merged.statistics.rows, merged.record.inserted) == (1, 2, 1)
        assert (catalog.environments(), catalog.is_merged(NAME), catalog.is_merged(OTHER)) == ((), True, False)
        for call in (
            lambda: catalog.use_environment(NAME, "default"),
            lambda: catalog.merge(NAME),
            lambda: catalog.drop(NAME),
            lambda: catalog.in_environment(NAME).begin(TABLE, session),
        ):
            assert _refused(call) == "RVT-415"

    def test_a_merge_is_refused_where_the_base_has_moved(
        self, with_environments: HasEnvironments, session: EngineSession
    ) -> None:
        """Nothing is published then, and the environment stays as it is."""
        catalog, there = with_environments, _in(with_environments, NAME)
        write(catalog, session, ReplaceAll(), OLD, "one")
        write(there, session, ReplaceAll(), NEW, "two")
        now = write(catalog, session, ReplaceAll(), [(3, "c", 3)], "three")
        with pytest.raises(RivetError, match=TABLE) as caught:
            catalog.merge(NAME)
        assert caught.value.code == "RVT-405"
        assert catalog.current(TABLE) == now
        assert rows_of(there, session) == NEW
        write(there, session, ReplaceAll(), OLD, "four")

    def test_a_new_table_is_merged(self, with_environments: HasEnvironments, session: EngineSession) -> None:
        """Unless the base has one by then."""
        catalog, there, other = with_environments, _in(with_environments, NAME), _in(with_environments, OTHER)
        for each in (there, other):
            write(each, session, ReplaceAll(), NEW, "one")
        (table,) = catalog.built(NAME)
        assert (table.base, table.moved) == (None, False)
        if isinstance(there, ListsTables):
            assert (there.tables(""), catalog.current(TABLE)) == ((TABLE,), None)
        assert (catalog.has_environment(NAME), catalog.has_environment("another")) == (True, False)
        catalog.merge(NAME)
        assert catalog.has_environment(NAME) is False
        assert rows_of(catalog, session) == NEW
        assert _refused(lambda: catalog.merge(OTHER)) == "RVT-405"

    def test_no_merge_while_a_run_writes_there(
        self, with_environments: HasEnvironments, session: EngineSession
    ) -> None:
        """A merge in between would lose what the run publishes afterwards."""
        catalog, there = with_environments, _in(with_environments, NAME)
        with there.begin(TABLE, session) as transaction:
            assert _refused(lambda: catalog.merge(NAME)) == "RVT-417"
            fill(transaction, session, ReplaceAll(), NEW)
            transaction.commit("one")
        assert len(catalog.merge(NAME)) == 1

    def test_a_run_there_stages_for_its_last_step(
        self, with_environments: HasEnvironments, session: EngineSession
    ) -> None:
        """Nobody sees what it has staged, and no merge begins, until it is published there."""
        catalog, there = with_environments, _in(with_environments, NAME)
        if not isinstance(catalog, StagesForRuns):
            pytest.skip("it does not stage versions for runs")
        assert isinstance(there, StagesForRuns)
        old = write(catalog, session, ReplaceAll(), OLD, "one")
        staged = stage(there, session, NEW, "two", Append())
        for each in (catalog, there):
            assert (each.current(TABLE), each.published_by(TABLE, "two")) == (old, None)
        assert (catalog.staged_by(TABLE, "two"), there.staged_by(TABLE, "two")) == (None, staged)
        assert _states(there)[-1] == STAGED
        assert STAGED not in _states(catalog)
        assert read(session, there.read(staged)) == OLD + NEW
        assert _refused(lambda: catalog.merge(NAME)) == "RVT-417"
        transaction = there.take_up_staged(TABLE, staged.version)
        transaction.check_base()
        assert _publish(there, transaction, "two") == staged
        assert (catalog.current(TABLE), there.current(TABLE)) == (old, staged)
        assert staged.environment == NAME
        assert len(catalog.merge(NAME)) == 1
        assert sorted(rows_of(catalog, session)) == OLD + NEW

    def test_a_drop_removes_all_of_it(self, with_environments: HasEnvironments, session: EngineSession) -> None:
        """Its name can be used again; the base stays as it is."""
        catalog, there = with_environments, _in(with_environments, NAME)
        old = write(catalog, session, ReplaceAll(), OLD, "one")
        write(there, session, ReplaceAll(), NEW, "two")
        assert catalog.drop(NAME)
        assert not catalog.drop(NAME)
        assert (catalog.environments(), catalog.built(NAME), catalog.current(TABLE)) == ((), (), old)
        assert _refused(lambda: catalog.in_environment(NAME).begin(TABLE, session)) == "RVT-415"
        assert rows_of(_in(catalog, NAME), session) == OLD

    def test_what_is_done_there_leaves_the_base(
        self, with_environments: HasEnvironments, session: EngineSession
    ) -> None:
        """No version of the base is evicted, and no watermark of it is set."""
        catalog, there = with_environments, _in(with_environments, NAME)
        old = write(catalog, session, ReplaceAll(), OLD, "one")
        there.evict(old)
        if isinstance(there, HasWatermarks):
            watermarks: HasWatermarks = there
            assert _refused(lambda: watermarks.override_watermark(old, Override("1"))) == "RVT-417"
            assert watermarks.watermark_override(old) is None
        new = write(there, session, ReplaceAll(), NEW, "two")
        there.evict(new)
        assert (there.current(TABLE), catalog.current(TABLE)) == (old, old)
        assert catalog.built(NAME) == ()

    def test_abandoned_ones_are_swept(self, with_environments: HasEnvironments, session: EngineSession) -> None:
        """Unused ones are swept, unless a run is alive there."""
        catalog, there, other = with_environments, _in(with_environments, NAME), _in(with_environments, OTHER)
        write(there, session, ReplaceAll(), NEW, "one")
        assert catalog.sweep_environments() == ()
        with other.begin(TABLE, session):
            assert catalog.sweep_environments(timedelta(seconds=-1)) == (NAME,)
        assert [environment.name for environment in catalog.environments()] == [OTHER]

    def test_an_environment_belongs_to_one_profile(self, with_environments: HasEnvironments) -> None:
        """Two profiles would mix their tables."""
        catalog = with_environments
        catalog.use_environment(NAME, "default")
        catalog.use_environment(NAME, "default")
        assert _refused(lambda: catalog.use_environment(NAME, "production")) == "RVT-416"


def _states(catalog: HasTargets) -> list[str]:
    return [version.state for version in capable(catalog, HasVersions).versions(TABLE)]


def _in(catalog: HasEnvironments, name: str) -> HasTargets:
    catalog.use_environment(name, "default")
    return catalog.in_environment(name)


def _publish(catalog: StagesForRuns, transaction: StagedTransaction, identity: str) -> Published:
    if publishes_together(catalog):
        (published,) = catalog.publish_together([(transaction, identity)])
        return published
    return transaction.commit(identity)


def _refused(call: object) -> str:
    assert callable(call)
    with pytest.raises(RivetError) as caught:
        call()
    return caught.value.code
