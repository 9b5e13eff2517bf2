"""Publications in a JDBC catalog whose database carries out a COMMIT of which the answer is lost."""

from types import SimpleNamespace

import pytest
from support.commit_proxy import commit_proxy
from support.iceberg import declared
from support.iceberg_runs import APPEND, ERRORS, NAMESPACE, TABLE, Work, heartbeats, lake, run, written

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.catalogs.iceberg.sql_catalog import DatabaseCatalog

OLD = Work([1], 1)
NEW = Work([2, 3], 2, plan=APPEND, identity="new/orders")
WORKS = {"branch": NEW, "table": NEW.having(adds=True, plan=OLD.plan), "errors": NEW.having(errors=["some"])}
FIRST = OLD.having(errors=["some"])


@pytest.fixture
def place(postgres, tmp_path):
    """Yield a catalog behind a proxy."""
    options = declared("postgres", tmp_path / "lake", postgres=postgres)
    with commit_proxy(postgres.port) as proxy:
        behind = {**options, "uri": options["uri"].replace(f":{postgres.port}/", f":{proxy.port}/")}
        plain = connect_catalog("lake", options, tmp_path)
        yield SimpleNamespace(root=tmp_path, proxy=proxy, plain=plain, catalog=lake(behind, tmp_path))


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_a_publication_whose_answer_is_lost_is_found_and_is_whole(place, work):
    run(place.catalog, OLD.having(errors=work.errors and ["old"]), place.root)
    transaction = written(place.catalog, work, place.root)
    place.proxy.lose.set()
    with transaction:
        published = transaction.commit(work.identity)
    assert place.proxy.lost == 1
    table = place.plain.load_table((NAMESPACE, TABLE))
    expected = [1, 2, 3] if work.plan == APPEND else [2, 3]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected
    assert str(table.metadata.current_snapshot_id) == published.version
    assert place.catalog.published_by(TABLE, work.identity) == published
    names = {name[-1] for name in place.plain.list_tables(NAMESPACE)}
    assert names == {TABLE, *([ERRORS] if work.errors else [])}
    assert (set(table.metadata.refs), heartbeats(place.root)) == ({"main"}, [])


@pytest.mark.parametrize("name", [TABLE, ERRORS])
def test_a_first_publication_whose_answer_is_lost_is_found(place, monkeypatch, name):
    transaction, commit = written(place.catalog, FIRST, place.root), DatabaseCatalog.commit_table

    def lost(catalog, table, *changes):
        if table.name() == (NAMESPACE, name):
            place.proxy.lose.set()
        return commit(catalog, table, *changes)

    monkeypatch.setattr(DatabaseCatalog, "commit_table", lost)
    with transaction:
        published = transaction.commit(FIRST.identity)
    assert place.proxy.lost == 1
    assert place.catalog.current(TABLE) == published
    assert place.plain.load_table((NAMESPACE, TABLE)).scan().to_arrow()["id"].to_pylist() == [1]
