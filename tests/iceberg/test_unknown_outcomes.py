"""Publications whose commit has an answer that says nothing: by Iceberg's REST server behind a proxy that fails."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from support.http_proxy import FAULTS, Proxy, proxy
from support.iceberg import declared
from support.iceberg_publications import publish, runtime, stage
from support.iceberg_runs import APPEND, ERRORS, NAMESPACE, TABLE, Work, expire_heartbeats, lake, run
from support.tables import refused
from support.torture import TORTURE

from rivet_dagster.catalogs.iceberg.commits import committing
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.catalogs.iceberg.writes import staged_table

NAME, ENVIRONMENT = (NAMESPACE, TABLE), "pr-7"
OLD = Work([1, 2], 1, identity="old/orders")
NEW = Work([3], 2, plan=APPEND, identity="new/orders")
BEFORE, AFTER = [(1, 1), (2, 1)], [(1, 1), (2, 1), (3, 2)]


@dataclass
class Place:
    """A REST catalog behind a proxy, and the same one without it."""

    root: Path
    proxy: Proxy
    options: dict[str, Any]
    plain: Catalog
    catalog: Any = field(init=False)

    def __post_init__(self) -> None:
        self.catalog = lake(self.options, self.root)

    def rows(self, name: tuple[str, ...] = NAME) -> list[tuple[int, int]]:
        """Return all rows of a table that readers see, after reading every published snapshot of it."""
        if not self.plain.table_exists(name):
            return []
        found = self.plain.load_table(name)
        for entry in found.metadata.snapshot_log:
            if found.snapshot_by_id(entry.snapshot_id) is not None:
                found.scan(snapshot_id=entry.snapshot_id).to_arrow()
        rows = found.scan().to_arrow().to_pylist()
        return sorted((row["id"], row["net"]) if "id" in row else (0, 0) for row in rows)

    def left(self) -> list[str]:
        """Return staging tables, and branches of runs and environments."""
        names = [name for name in self.plain.list_tables(NAMESPACE) if self.plain.table_exists(name)]
        refs = [f"{name[-1]}/{ref}" for name in names for ref in self.plain.load_table(name).metadata.refs]
        return [*(name[-1] for name in names if "__rivet_" in name[-1]), *(r for r in refs if not r.endswith("/main"))]


@pytest.fixture
def place(iceberg_rest, tmp_path, monkeypatch) -> Iterator[Place]:
    """Return a catalog whose looks for a lost commit end before that arrives."""
    monkeypatch.setattr(committing, "_LOOKS", (0.0, 0.1))
    options = declared("rest", tmp_path / "lake", rest=iceberg_rest)
    with proxy(options["uri"]) as between:
        behind = {**options, "uri": between.uri, "rest.client.socket-timeout-ms": "5000"}
        yield Place(tmp_path, between, behind, connect_catalog("plain", options, tmp_path))


def publishes(name: str, ref: str = "main") -> Callable[[str, str, str], bool]:
    """Return what tells the request that publishes a snapshot of a table."""

    def strikes(method: str, path: str, body: str) -> bool:
        return path.endswith(f"/tables/{name}") and "add-snapshot" in body and f'"ref-name":"{ref}"' in body

    return strikes


@dataclass(frozen=True)
class Path_:
    """A path of publication: what comes before, the publication itself, and its result.

    ``act`` is called again for a retry. ``ref`` is the branch that a reader of the result looks at.
    """

    act: Callable[[Place], object]
    prepare: Callable[[Place], object] = lambda place: run(place.catalog, OLD, place.root)
    before: tuple[tuple[int, int], ...] = tuple(BEFORE)
    after: tuple[tuple[int, int], ...] = tuple(AFTER)
    table: str = TABLE
    ref: str = "main"


def retried(work: Work) -> Callable[[Place], object]:
    """Return a function that runs ``work`` as a step does that may be a retry."""

    def act(place: Place) -> object:
        done = place.catalog.published_by(TABLE, work.identity)
        return done if done is not None else run(place.catalog, work, place.root)

    return act


def withheld(work: Work) -> Callable[[Place], object]:
    def prepare(place: Place) -> None:
        run(place.catalog, OLD, place.root)
        run(place.catalog, work.having(end="withhold"), place.root)

    return prepare


def by_hand(place: Place) -> object:
    """Publish the withheld version."""
    if place.catalog.published_by(TABLE, "by hand") is not None:
        return None
    (version,) = [each for each in place.catalog.versions(TABLE) if each.state == "withheld"]
    with place.catalog.take_up(TABLE, version.name) as transaction:
        return transaction.commit("by hand")


def staged_for_run(adds: bool) -> Callable[[Place], object]:
    def prepare(place: Place) -> None:
        project = runtime(place.options, place.root, TABLE)
        publish(project, [stage(project, TABLE, 1, "old")])
        place.staged = [stage(project, TABLE, 2, "new", adds=adds)]

    return prepare


def last_step(place: Place) -> object:
    return publish(runtime(place.options, place.root, TABLE), place.staged)


def in_environment(place: Place) -> object:
    place.catalog.use_environment(ENVIRONMENT, "default")
    tables = place.catalog.in_environment(ENVIRONMENT)
    done = tables.published_by(TABLE, NEW.identity)
    return done if done is not None else run(tables, NEW, place.root)


def merges(place: Place) -> object:
    return None if place.catalog.is_merged(ENVIRONMENT) else place.catalog.merge(ENVIRONMENT)


def rolls_back(place: Place) -> object:
    if place.catalog.published_by(TABLE, "rollback") is not None:
        return None
    with place.catalog.restage(TABLE, place.catalog.versions(TABLE)[-1].name) as transaction:
        return transaction.commit("rollback")


def built(*works: Work) -> Callable[[Place], object]:
    def prepare(place: Place) -> None:
        for work in works:
            run(place.catalog, work, place.root)

    return prepare


def built_there(*works: Work) -> Callable[[Place], object]:
    def prepare(place: Place) -> None:
        built(*works)(place)
        in_environment(place)

    return prepare


def replaced(number: int) -> tuple[tuple[int, int], ...]:
    return ((1, number), (2, number))


PATHS = {
    "first version": Path_(retried(OLD), lambda place: None, (), tuple(BEFORE)),
    "branch": Path_(retried(NEW)),
    "staging table": Path_(retried(NEW.having(adds=True, plan=Work([]).plan)), after=((3, 2),)),
    "withheld on a branch": Path_(by_hand, withheld(NEW)),
    "withheld in a staging table": Path_(by_hand, withheld(NEW.having(adds=True, plan=Work([]).plan)), after=((3, 2),)),
    "last step, branch": Path_(last_step, staged_for_run(adds=False), replaced(1), replaced(2)),
    "last step, staging table": Path_(last_step, staged_for_run(adds=True), replaced(1), replaced(2)),
    "rollback": Path_(rolls_back, built(OLD, NEW), tuple(AFTER), tuple(BEFORE)),
    "environment": Path_(in_environment, after=tuple(BEFORE), ref=f"rivet_env_{ENVIRONMENT}"),
    "merge": Path_(merges, built_there(OLD)),
    "merge of a first version": Path_(merges, built_there(), (), ((3, 2),)),
    "first errors": Path_(retried(NEW.having(errors=["bad"])), table=ERRORS),
    "errors": Path_(retried(NEW.having(errors=["bad"])), built(OLD.having(errors=["old"])), table=ERRORS),
}

UNKNOWN = ("502 before", "503 later", "late")
"""Faults whose request is not carried out yet when the last look for it ends."""

CELLS = [(path, fault) for path in PATHS for fault in FAULTS]
IN_CI = [(path, FAULTS[number % len(FAULTS)]) for number, path in enumerate(PATHS)]
IN_CI += [("first version", "504 after"), ("staging table", "twice"), ("branch", "twice"), ("staging table", "late")]


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(("name", "fault"), CELLS if TORTURE else sorted({*IN_CI}))
def test_a_commit_with_an_answer_that_says_nothing(place, monkeypatch, name, fault):
    """Readers see the old version or the new one, whole, whatever is swept; a retry publishes it once."""
    path = PATHS[name]
    path.prepare(place)
    if fault == "late":
        place.catalog = lake({**place.options, "rest.client.socket-timeout-ms": "2000"}, place.root)
        place.options["rest.client.socket-timeout-ms"] = "2000"
    place.proxy.strikes, place.proxy.fault = publishes(path.table, path.ref), fault
    code = ""
    if fault in UNKNOWN:
        error = refused(path.act, place)
        code = error.code
        assert "it is not known whether" in str(error), error
    else:
        path.act(place)
    assert len(place.proxy.struck) == 1
    assert code == ("RVT-419" if fault in UNKNOWN else "")
    assert place.rows() in (list(path.before), list(path.after))
    expire_heartbeats(place.root)
    place.catalog.sweep()
    assert place.rows() in (list(path.before), list(path.after))
    place.proxy.settled()
    assert place.rows() in (list(path.before), list(path.after))
    if not (code and name.startswith("last step")):  # what it staged has been swept
        path.act(place)
        assert place.rows() == list(path.after)
    if name == "environment":
        place.catalog.drop(ENVIRONMENT)
    monkeypatch.setattr(staged_table, "OLDEST_REQUEST", staged_table.OLDEST_REQUEST * 0)
    expire_heartbeats(place.root)
    place.catalog.sweep()
    assert place.left() == []
    assert place.rows() in (list(path.before), list(path.after))
    if path.table == ERRORS:
        errors = place.catalog.errors_of(place.catalog.current(TABLE))
        found = place.plain.load_table((NAMESPACE, ERRORS)).scan(snapshot_id=errors.snapshot).to_arrow()
        assert found["message"].to_pylist() == ["bad"]
