"""Tables that are evicted after their last reader: no version that others have published goes with them."""

from types import SimpleNamespace

import pytest
from support.iceberg_runs import ERRORS, NAMESPACE, TABLE, UPSERT, Work, lake, run, written
from support.tables import refused

from rivet_dagster.catalogs.iceberg.access import TableAccess
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog

OLD, NEW = Work([1, 2], 1, errors=["old"]), Work([2, 3], 2, identity="new/orders", errors=["new"])
NAME = (NAMESPACE, TABLE)


@pytest.fixture(params=["hadoop", "sqlite", "rest", "nessie"])
def place(request, tmp_path, iceberg_options) -> SimpleNamespace:
    """Return a catalog, as we and as others open it."""
    options = iceberg_options(request.param)
    plain = connect_catalog("plain" if request.param == "hadoop" else "lake", options, tmp_path)
    return SimpleNamespace(root=tmp_path, options=options, plain=plain, catalog=lake(options, tmp_path))


def rows(place) -> list[int] | None:
    if place.catalog.current(TABLE) is None:
        return None
    return sorted(place.plain.load_table(NAME).scan().to_arrow()["id"].to_pylist())


def files(place) -> list[str]:
    return sorted(path.name for kind in ("*.parquet", "snap-*.avro") for path in place.root.rglob(kind))


@pytest.mark.nightly(but=1)
def test_what_is_evicted_is_gone_and_the_next_run_begins_anew(place):
    first = run(place.catalog, OLD, place.root)
    second = run(place.catalog, NEW, place.root)
    place.catalog.evict(first)
    assert rows(place) == [2, 3]
    begun = written(place.catalog, OLD.having(plan=UPSERT, errors=None), place.root)
    place.catalog.evict(second)
    place.catalog.evict(second)
    assert rows(place) is None
    assert place.catalog.versions(TABLE) == ()
    assert place.catalog.current(TABLE) is None
    for version in (first, second):
        assert refused(place.catalog.read, version).code == "RVT-401"
        assert refused(place.catalog.errors_of, version).code == "RVT-401"
    assert refused(begun.commit, "run/orders").code == "RVT-405"
    begun.abort()
    later = run(place.catalog, OLD.having(adds=True, errors=["again"]), place.root)
    assert (rows(place), later.record.inserted, later.record.deleted) == ([1, 2], 2, 0)
    place.catalog.evict(later)
    if place.options["catalog"] in ("hadoop", "jdbc"):  # of the others, other branches or tests may have files
        assert [name for name in files(place) if name.endswith("parquet")] == []


@pytest.mark.nightly(but=2)
def test_a_version_that_is_published_meanwhile_stays(place, monkeypatch):
    first = run(place.catalog, OLD, place.root)
    load = OpenedTable.load_if_any
    published = []

    def overtaken(opened):
        found = load(opened)
        if opened.name.name == TABLE and not published:
            published.append("")
            published.append(run(place.catalog, NEW, place.root))
        return found

    monkeypatch.setattr(OpenedTable, "load_if_any", overtaken)
    place.catalog.evict(first)
    monkeypatch.undo()
    assert (rows(place), place.catalog.current(TABLE)) == ([2, 3], published[1])
    errors = place.catalog.errors_of(published[1])
    scan = place.plain.load_table((NAMESPACE, ERRORS)).scan(snapshot_id=errors.snapshot)
    assert scan.to_arrow()["message"].to_pylist() == ["new"]


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("base_has", [True, False])
def test_what_is_evicted_in_an_environment_is_gone_there_unless_another_version_is_published(
    place, base_has, monkeypatch
):
    base = run(place.catalog, OLD, place.root) if base_has else None
    place.catalog.use_environment("dev", "default")
    there = place.catalog.in_environment("dev")
    first = run(there, NEW, place.root)
    begun = written(there, NEW.having(identity="other/orders", errors=None), place.root)
    reaching, published = TableAccess.reaching, []

    def overtaken(access, table="", code="RVT-403"):
        if code == "RVT-404" and not published:
            published.append(begun.commit("other/orders"))
        return reaching(access, table, code)

    monkeypatch.setattr(TableAccess, "reaching", overtaken)
    there.evict(first)
    monkeypatch.undo()
    assert there.current(TABLE) == published[0]
    there.evict(published[0])
    assert there.current(TABLE) == base == place.catalog.current(TABLE)
    assert place.catalog.built("dev") == ()
    again = run(there, NEW.having(identity="again/orders"), place.root)
    assert there.current(TABLE) == again
    if base_has:
        assert rows(place) == [1, 2]


def test_what_branches_and_tags_lead_to_stays(place):
    if place.options["catalog"] == "nessie":
        pytest.skip("tables of Nessie have no tags of their own")
    first = run(place.catalog, OLD, place.root)
    table = place.plain.load_table(NAME)
    with table.manage_snapshots() as snapshots:
        snapshots.create_tag(table.metadata.current_snapshot_id, "audited")
    tagged = table.metadata.current_snapshot_id
    place.catalog.evict(first)
    assert rows(place) is None
    assert place.plain.load_table(NAME).scan(snapshot_id=tagged).to_arrow()["id"].to_pylist() == [1, 2]
