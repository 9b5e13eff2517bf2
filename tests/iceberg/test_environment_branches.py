"""Environments by branches of tables, without a JVM, looked at by PyIceberg's own reader and DuckDB."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from support.iceberg import declared
from support.iceberg_duckdb import session
from support.iceberg_environments import (
    NAME,
    NEW,
    OLD,
    WORKS,
    all_works,
    data_files,
    of_environments,
    rows,
    run_there,
    seen,
    tables,
)
from support.iceberg_runs import APPEND, TABLE, UPSERT, Work, access_of, lake, run, written
from support.tables import refused

from rivet_dagster.catalogs.iceberg.environments.table_branches import removing
from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog
from rivet_dagster.catalogs.iceberg.metadata import snapshot_rows
from rivet_dagster.catalogs.iceberg.metadata.history import EXPIRED
from rivet_dagster.catalogs.iceberg.metadata.last_publication import LAST
from rivet_dagster.errors import RivetError
from rivet_dagster.model.watermark import Override

LAYOUT = {"partitioned_by": ["net"], "sort_order": ["net DESC"], "properties": {"write.metadata.x": "y"}}
CASES = {
    "append": ([OLD], NEW.having(plan=APPEND)),
    "merge": ([OLD], NEW.having(plan=UPSERT)),
    "columns": ([OLD], NEW.having(adds=True)),
    "fewer columns": ([OLD.having(adds=True)], NEW),
    "layout": ([OLD], NEW.having(options=LAYOUT)),
    "layout and columns": ([OLD], NEW.having(adds=True, options={"partitioned_by": ["more"], "sort_order": ["more"]})),
    "other layout": ([OLD.having(options=LAYOUT)], NEW.having(options={"properties": {"write.metadata.z": "1"}})),
    "first errors": ([OLD], NEW.having(errors=["new"])),
    "other errors": ([OLD.having(errors=["old"])], NEW.having(errors=["new"], adds=True)),
    "new table": ([], NEW.having(options=LAYOUT)),
    "new table with errors": ([], NEW.having(errors=["new"])),
}


class Lake:
    """The options of a catalog, the folder of its project, and the catalog."""

    def __init__(self, root: Path, kind: str = "hadoop", **server: Any) -> None:
        self.root, self.warehouse = root, root / "lake"
        self.options = declared(kind, root / "lake", **server)
        self.catalog = lake(self.options, root)

    def seen(self) -> dict:
        return seen(self.options, self.root)

    def table(self, name: str = TABLE):
        return tables(self.options, self.root)[name]

    def run(self, work: Work):
        return run(self.catalog, work, self.root)

    def run_there(self, work: Work, name: str = NAME):
        return run_there(self.catalog, work, self.root, name)


@pytest.fixture
def place(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(
    ("kind", "case"),
    [*(("hadoop", case) for case in CASES), *(("rest", case) for case in ("layout and columns", "other errors"))],
)
def test_a_run_there_leaves_the_base_and_a_merge_equals_the_run_on_the_base(request, tmp_path, kind, case):
    server = {"rest": request.getfixturevalue("iceberg_rest")} if kind == "rest" else {}
    before, work = CASES[case]
    twin, place = (Lake(tmp_path / name, kind, **server) for name in ("twin", "place"))
    for earlier in before:
        twin.run(earlier)
        place.run(earlier)
    base, files = place.seen(), data_files(place.warehouse)
    place.run_there(work)
    assert place.seen() == base
    assert data_files(place.warehouse).items() >= files.items()
    view = place.catalog.in_environment(NAME)
    twin.run(work)
    assert view.columns(TABLE, {}) == twin.catalog.columns(TABLE, {})

    place.catalog.merge(NAME)
    assert of_environments(place.options, place.root) == ["rivet_environments.state_pr_7_107cc1ad"]
    assert described(place) == described(twin)
    if work.errors:
        assert messages(place.catalog) == messages(twin.catalog) == list(work.errors)
    after = NEW.having(plan=APPEND, adds=work.adds, identity="after/orders", errors=work.errors, options=work.options)
    for each in (twin, place):
        each.run(after)
    assert described(place) == described(twin)


def described(place: Lake) -> dict:
    """Return the tables, without ids that are made by chance."""
    found = {}
    for name, table in tables(place.options, place.root).items():
        facts = {**table.current_snapshot().summary.additional_properties}
        named = ("rivet.identity", "rivet.run-id", "rivet.made-by", "rivet.data-snapshot-id")
        named += ("rivet.bytes-written", "rivet.text-bounds")
        counted = {key: value for key, value in facts.items() if key.startswith("rivet.") and key not in named}
        properties = {key: value for key, value in table.properties.items() if key not in (EXPIRED, LAST)}
        layout = (str(table.schema()), [str(field.transform) for field in table.spec().fields], str(table.sort_order()))
        found[name] = (rows(table) if "errors" not in name else None, layout, properties, counted)
    return found


def messages(catalog) -> list[str]:
    relation = catalog.errors_of(catalog.current(TABLE))
    found = access_of(catalog).catalog.load_table(relation.identifier[1:])
    told: list[str] = found.scan(snapshot_id=relation.snapshot).to_arrow()["message"].to_pylist()
    assert catalog.has_errors(catalog.current(TABLE)) == bool(told)
    return told


def test_several_runs_there_build_upon_each_other(place):
    """Also after the columns have changed, and when the base has a table of that name by now."""
    place.run(OLD)
    place.run_there(NEW.having(adds=True))
    place.run_there(Work([5], 5, APPEND, adds=True, identity="a/orders"))
    place.run_there(Work([5, 6], 6, UPSERT, adds=True, identity="b/orders"))
    place.run_there(Work([1], 1, APPEND, table="more", identity="c/more"))
    place.run_there(Work([2], 2, APPEND, table="more", identity="d/more"))
    place.run(Work([9], 9, table="more", identity="e/more"))
    view = place.catalog.in_environment(NAME)
    assert rows_of(place, view, TABLE) == [(3, 2, 2), (4, 2, 2), (5, 6, 6), (6, 6, 6)]
    assert rows_of(place, view, "more") == [(1, 1), (2, 2)]
    assert [(table.table, table.moved) for table in place.catalog.built(NAME)] == [("more", True), ("orders", False)]
    assert [version.name for version in view.versions("more")] != []
    with pytest.raises(RivetError, match="RVT-405"):
        place.catalog.merge(NAME)
    assert rows(place.table("more")) == [(9, 9)]
    assert rows(place.table()) == [(1, 1), (2, 1), (3, 1)]


def rows_of(place: Lake, view, table: str) -> list[tuple]:
    engine = session(place.root, lake=place.options)
    found = engine.to_arrow(engine.load(view.relation(table, {})))
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_two_environments_of_one_table(place):
    """Each has columns of its own; the second merge is refused, and its branch can still be read."""
    place.run(OLD)
    place.run_there(NEW.having(adds=True), "one")
    place.run_there(Work([7], 7, APPEND, identity="two/orders"), "two")
    views = [place.catalog.in_environment(name) for name in ("one", "two")]
    assert rows_of(place, views[0], TABLE) == [(3, 2, 2), (4, 2, 2)]
    assert rows_of(place, views[1], TABLE) == [(1, 1), (2, 1), (3, 1), (7, 7)]
    place.catalog.merge("one")
    with pytest.raises(RivetError, match="RVT-405"):
        place.catalog.merge("two")
    assert rows_of(place, views[1], TABLE) == [(1, 1), (2, 1), (3, 1), (7, 7)]
    assert place.catalog.drop("two")
    assert rows(place.table()) == [(3, 2, 2), (4, 2, 2)]


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("kind", ["hadoop", "sqlite"])
def test_a_drop_removes_branches_snapshots_and_files(tmp_path, kind):
    place = Lake(tmp_path, kind)
    place.run(OLD.having(errors=["old"]))
    base, files = place.seen(), data_files(place.warehouse)
    snapshots = [snapshot.snapshot_id for snapshot in place.table().metadata.snapshots]
    for work in (*WORKS.values(), NEW.having(end="withhold", identity="kept/orders", errors=["kept"])):
        place.run_there(work)
    assert [version.state for version in place.catalog.versions(TABLE)] == ["current"]
    assert place.catalog.drop(NAME)
    assert of_environments(place.options, place.root) == []
    assert (place.seen(), data_files(place.warehouse)) == (base, files)
    left = [snapshot.snapshot_id for snapshot in place.table().metadata.snapshots]
    assert set(snapshots) <= set(left)
    assert not any("rivet.environment" in s.summary.additional_properties for s in place.table().metadata.snapshots)


def test_a_table_without_rows_in_the_base(place):
    """One that somebody has only created has no snapshot that a branch could begin with."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "net", LongType()))
    plain = place.catalog.access.catalog
    plain.create_namespace_if_not_exists("shop")
    for name in (TABLE, "more"):
        plain.create_table(("shop", name), schema)
    place.run(Work([5], 5, APPEND, table="more"))
    assert rows(place.table("more")) == [(5, 5)]
    place.run_there(Work([1], 1, APPEND, identity="a/orders"))
    place.run_there(Work([1, 2], 2, UPSERT, identity="b/orders"))
    (table,) = place.catalog.built(NAME)
    assert (table.base, table.moved, table.same) == (None, False, False)
    assert (place.catalog.current(TABLE), rows(place.table())) == (None, [])
    place.catalog.merge(NAME)
    assert rows(place.table()) == [(1, 2), (2, 2)]


def test_the_base_evicts_nothing_that_environments_need(place):
    """Neither a table with their branches, nor one among whose files those of a table of theirs are."""
    place.run(OLD)
    place.run_there(NEW)
    place.run_there(Work([1], 1, APPEND, table="more", identity="there/more"))
    more = place.run(Work([9], 9, table="more", identity="base/more"))
    for published in (place.catalog.current(TABLE), more):
        place.catalog.evict(published)
    view = place.catalog.in_environment(NAME)
    assert (rows_of(place, view, TABLE), rows_of(place, view, "more")) == ([(3, 2), (4, 2)], [(1, 1)])
    place.catalog.drop(NAME)
    for published in (place.catalog.current(TABLE), more):
        place.catalog.evict(published)
    left = tables(place.options, place.root)
    assert {name: table.current_snapshot() for name, table in left.items()} == {TABLE: None, "more": None}
    assert data_files(place.warehouse) == {}


def test_making_one_looks_at_no_table(place, monkeypatch):
    place.run(OLD)
    catalog, loaded = place.catalog.access.catalog, []
    load = catalog.load_table
    monkeypatch.setattr(catalog, "load_table", lambda name: loaded.append(name) or load(name))
    place.catalog.use_environment(NAME, "default")
    assert {namespace for namespace, _ in loaded} == {"rivet_environments"}


def test_readers_of_the_base_find_no_table_of_it(place, monkeypatch):
    place.run(OLD)
    place.run_there(WORKS["more"])
    assert list(tables(place.options, place.root)) == [TABLE]
    assert place.catalog.current("more") is None
    assert place.catalog.in_environment(NAME).tables("") == ("more", TABLE)
    monkeypatch.setattr(place.catalog.access.catalog, "load_table", lambda name: pytest.fail(f"{name} is opened"))
    assert TABLE in place.catalog.tables("")


def test_withheld_and_staged_versions_belong_to_where_they_were_made(place):
    """A sweep of the base, and its runs, leave those of an environment; and the other way round."""
    place.run(OLD)
    place.run(NEW.having(end="withhold", identity="base/orders"))
    place.run_there(NEW.having(end="withhold", identity="there/orders"))
    place.run_there(NEW.having(end="withhold", identity="columns/orders", adds=True))
    view = place.catalog.in_environment(NAME)
    assert identities(place.catalog) == ["base/orders"]
    assert sorted(identities(view)) == ["columns/orders", "there/orders"]
    assert (place.catalog.sweep(), place.catalog.sweep_environments()) == ((), ())
    place.run(Work([8], 8, APPEND, identity="next/orders"))
    (base,), there = withheld(place.catalog), withheld(view)
    place.catalog.take_up(TABLE, base.name).abort()
    assert [version.name for version in withheld(view)] == [version.name for version in there]
    with view.take_up(TABLE, there[0].name) as transaction:
        published = transaction.commit("published/orders")
    assert (published.environment, view.current(TABLE).version) == (NAME, published.version)
    assert rows(place.table()) == [(1, 1), (2, 1), (3, 1), (8, 8)]


def withheld(catalog) -> list:
    return [version for version in catalog.versions(TABLE) if version.state == "withheld"]


def identities(catalog) -> list[str]:
    return [version.identity for version in withheld(catalog)]


@pytest.mark.parametrize("dies", [False, True])
def test_the_first_table_of_a_run_in_an_environment_that_is_dropped_meanwhile_is_gone(place, monkeypatch, dies):
    place.catalog.use_environment(NAME, "default")
    transaction = written(place.catalog.in_environment(NAME), NEW, place.root)
    commit, dropped = HadoopCatalog.commit_table, []

    def interrupted(catalog, identifier):
        raise KeyboardInterrupt

    def overtaken(catalog, table, *changes):
        name = table.name()[-1]
        if not dropped and name.startswith("table_orders_") and "__rivet_" not in name:
            dropped.append(place.catalog.drop(NAME))
            if dies:  # before it looks whether the environment is still there
                monkeypatch.setattr(HadoopCatalog, "purge_table", interrupted)
        return commit(catalog, table, *changes)

    with monkeypatch.context() as patch:
        patch.setattr(HadoopCatalog, "commit_table", overtaken)
        if dies:
            with pytest.raises(KeyboardInterrupt):
                transaction.commit(NEW.identity)
        else:
            assert refused(transaction.commit, NEW.identity).code == "RVT-415"
            transaction.abort()
    monkeypatch.undo()
    remains = [name for name in of_environments(place.options, place.root) if ".table_orders_" in name]
    staged = [name for name in remains if "__rivet_" in name]
    assert (dropped, len(remains), len(staged)) == ([True], 2 * int(dies), int(dies))
    if dies:
        assert place.catalog.sweep_environments() == (NAME,)
        assert of_environments(place.options, place.root) == []


def test_an_environment_begins_without_what_was_made_after_a_drop_of_its_name(place, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(HadoopCatalog, "drop_table", lambda catalog, identifier: None)
        place.run_there(NEW)
        place.catalog.drop(NAME)
    place.catalog.use_environment(NAME, "default")
    assert place.catalog.built(NAME) == ()
    assert place.run_there(NEW.having(plan=APPEND)).record.inserted == 2
    (built,) = place.catalog.built(NAME)
    assert built.current.statistics.rows == 2


def test_a_watermark_that_was_set_there_is_merged(place):
    place.run(OLD)
    place.run_there(NEW)
    view = place.catalog.in_environment(NAME)
    view.override_watermark(view.current(TABLE), Override("7"))
    assert view.watermark_override(view.current(TABLE)) == Override("7")
    assert place.catalog.watermark_override(place.catalog.current(TABLE)) is None
    (merged,) = place.catalog.merge(NAME)
    assert place.catalog.watermark_override(merged) == Override("7")


def test_versions_with_the_same_files_are_the_same(place):
    """What rolls back to the base has its files; what writes the same rows again has not."""
    place.run(OLD)
    place.run_there(NEW)
    view = place.catalog.in_environment(NAME)
    assert [table.same for table in place.catalog.built(NAME)] == [False]
    base = next(version for version in view.versions(TABLE) if version.state == "older")
    with view.restage(TABLE, base.name) as transaction:
        transaction.commit("back/orders")
    assert [table.same for table in place.catalog.built(NAME)] == [True]
    place.run_there(replace(OLD, identity="again/orders"))
    assert [table.same for table in place.catalog.built(NAME)] == [False]


def test_what_a_merge_is_judged_by_is_judged_again_by_its_commit(place, monkeypatch):
    """A run of the base between both loses nothing."""
    place.run(OLD)
    place.run_there(NEW)
    from rivet_dagster.catalogs.iceberg.environments.table_branches.release import MergeRelease

    original = MergeRelease.of_snapshot

    def overtaken(release, snapshot):
        place.run(Work([8], 8, APPEND, identity="between/orders"))
        return original(release, snapshot)

    monkeypatch.setattr(MergeRelease, "of_snapshot", overtaken)
    with pytest.raises(RivetError, match="RVT-405"):
        place.catalog.merge(NAME)
    assert rows(place.table()) == [(1, 1), (2, 1), (3, 1), (8, 8)]
    assert [environment.merging for environment in place.catalog.environments()] == [False]


@pytest.mark.parametrize("adds", [False, True])
def test_columns_that_the_base_got_since_stay(place, adds):
    """Those of an environment that has changed its own are refused: they were made without them."""
    run(place.catalog, OLD, place.root)
    run_there(place.catalog, NEW.having(adds=adds), place.root)
    with place.table().update_schema() as schema:
        schema.add_column("gdpr_class", LongType())
    if adds:
        assert refused(place.catalog.merge, "pr-7").code == "RVT-405"
    else:
        place.catalog.merge("pr-7")
    assert place.table().schema().column_names == ["id", "net", "gdpr_class"]


def test_errors_that_an_interrupted_merge_has_published_stay_in_the_environment_until_the_rows_are(place, monkeypatch):
    """An expiry of the base's error table between the two takes nothing that the next merge needs."""
    place.run(replace(OLD, errors=["old"]))
    place.run_there(NEW.having(errors=["new"]))
    from rivet_dagster.catalogs.iceberg.environments.table_branches.storage import _TableMerge

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_TableMerge, "_marks", die)
        with pytest.raises(KeyboardInterrupt):
            place.catalog.merge(NAME)
    errors = f"{TABLE}__errors"
    expiry = place.table(errors).maintenance.expire_snapshots()
    published = place.table(errors).metadata.current_snapshot_id
    for snapshot in place.table(errors).metadata.snapshots:
        if snapshot.snapshot_id not in {published, *(ref.snapshot_id for ref in place.table(errors).refs().values())}:
            expiry = expiry.by_id(snapshot.snapshot_id)
    expiry.commit()
    assert place.catalog.merge(NAME)
    assert rows(place.table()) == [(3, 2), (4, 2)]


def test_a_drop_waits_for_a_merge_and_a_name_must_be_one(place, monkeypatch):
    all_works(place.catalog, place.root)
    from rivet_dagster.catalogs.iceberg.environments.table_branches.storage import BranchEnvironment

    def dropped(merge, state):
        with pytest.raises(RivetError, match="RVT-417"):
            place.catalog.drop(NAME)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BranchEnvironment, "remove_data", dropped)
        with pytest.raises(KeyboardInterrupt):
            place.catalog.merge(NAME)
    # The branch ended with the commit that published the table, not by what is done afterwards.
    assert set(place.table().metadata.refs) == {"main"}
    assert place.catalog.sweep_environments(timedelta(days=1)) == ()
    assert place.catalog.merge(NAME) == ()
    for name in ("Pr-7", "a.b", "", "../x", "a" * 65):
        with pytest.raises(RivetError, match="RVT-129"):
            place.catalog.use_environment(name, "default")


def test_a_drop_reads_no_snapshots_that_are_older_than_the_environment(place, monkeypatch):
    read: list[str] = []
    manifests_of = snapshot_rows.manifests_of
    for module in (snapshot_rows, removing):
        monkeypatch.setattr(
            module,
            "manifests_of",
            lambda snapshot, io: read.append(snapshot.manifest_list) or manifests_of(snapshot, io),
        )

    def lists_of_a_drop(snapshots: int) -> int:
        for number in range(snapshots):
            place.run(NEW.having(plan=APPEND, identity=f"{snapshots}-{number}/orders"))
        files = data_files(place.warehouse)
        place.run_there(NEW.having(plan=APPEND))
        assert len(data_files(place.warehouse)) > len(files)
        read.clear()
        place.catalog.drop(NAME)
        assert data_files(place.warehouse) == files
        return len(read)

    assert 0 < lists_of_a_drop(1) == lists_of_a_drop(12)
