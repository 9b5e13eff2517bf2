"""Runs that are killed at random instants, on each kind of catalog: one in ``make test``, 200 in ``make torture``.

Which steps there are, and a kill before each, is tests/iceberg/test_killed_runs.py. Here nothing is known of the code:
a process is killed between its first and its last moment, and readers must find the version before or the new one.
"""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.iceberg import KINDS
from support.iceberg_runs import (
    APPEND,
    ERRORS,
    NAMESPACE,
    TABLE,
    UPSERT,
    Work,
    expire_heartbeats,
    heartbeats,
    lake,
    run,
    run_all,
)
from support.killing import ended, start
from support.torture import examples

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.model.write_plan import ReplaceAll

KILLS = examples(1, 200)
Rows = list[tuple[int, int]]
Seen = tuple[Rows, list[str] | None]


def seen(options: dict[str, Any], root: Path) -> Seen:
    """Return the rows by two readers that know nothing of this package's marks, and the errors that belong to them."""
    plain = connect_catalog("lake", options, root)
    scan = plain.load_table((NAMESPACE, TABLE)).scan()
    rows = sorted((row["id"], row["net"]) for row in scan.to_arrow().to_pylist())
    files = [task.file.file_path.removeprefix("file://") for task in scan.plan_files()]
    assert sorted(duckdb.read_parquet(files, union_by_name=True).project("id, net").fetchall()) == rows
    catalog = lake(options, root)
    current = catalog.current(TABLE)
    assert current is not None
    if catalog.errors_of(current) is None:
        return rows, None
    snapshot = catalog.relation(ERRORS, {}).snapshot
    errors = plain.load_table((NAMESPACE, ERRORS)).scan(snapshot_id=snapshot).to_arrow()
    return rows, sorted(errors["message"].to_pylist())


def settled(options: dict[str, Any], root: Path) -> Seen:
    """Return what readers see once a server has carried out what it was sent before the process died."""
    found = seen(options, root)
    while True:
        time.sleep(0.1)
        before, found = found, seen(options, root)
        if found == before:
            return found


def expected(old: Seen, work: Work) -> Seen:
    """Return what is there after a run."""
    rows = old[0] if work.plan in (UPSERT, APPEND) else []
    new = work.ids
    if work.plan == UPSERT:  # of rows of one key, from an earlier append, each is updated
        rows = [(number, work.net if number in work.ids else net) for number, net in rows]
        new = sorted(set(work.ids) - {number for number, _ in rows})
    rows = sorted([*rows, *[(number, work.net) for number in new]])
    return rows, None if work.errors is None else sorted(work.errors)


def works(chance: random.Random, count: int) -> Sequence[Work]:
    """Return runs of all kinds, each with values of its own."""
    made = []
    for number in range(2, count + 2):
        plan = chance.choice([ReplaceAll(), UPSERT, APPEND])
        ids = chance.sample(range(50), 3)
        errors = [f"error {number}"] if chance.random() < 0.5 else None
        made.append(Work(ids, number, plan, errors, identity=f"run{number}/orders"))
    return made


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_killed_at_any_instant(kind: str, iceberg_options: Callable[[str], Any], tmp_path: Path) -> None:
    options, chance = iceberg_options(kind), random.Random(kind)
    run(lake(options, tmp_path), Work([1, 2, 3], 1, errors=["first"], identity="run1/orders"), tmp_path)
    begun = time.monotonic()
    assert ended(start(run_all, options, tmp_path, Work([1, 2], 1, UPSERT, ["first"], identity="run0/orders"))) == 0
    longest = time.monotonic() - begun
    now = seen(options, tmp_path)
    assert now == ([(1, 1), (2, 1), (3, 1)], ["first"])
    outcomes = set()
    for number, work in enumerate(works(chance, KILLS)):
        old, new = now, expected(now, work)
        process = start(run_all, options, tmp_path, work)
        time.sleep(chance.uniform(0, longest))
        process.kill()
        code = ended(process)
        now = settled(options, tmp_path)
        assert now in ((new,) if code == 0 else (old, new)), (number, work)
        outcomes.add((code, now == new))

        catalog = lake(options, tmp_path)
        assert catalog.sweep() == (), "it has only just died"
        expire_heartbeats(tmp_path)
        if number % 2 or now == new:
            catalog.sweep()
            assert catalog.building() == ()
            assert not heartbeats(tmp_path)
        else:  # executed again, upon what the first attempt has left
            run(catalog, work, tmp_path)
            now = seen(options, tmp_path)
            assert now == new, (number, work)
            assert catalog.building() == ()
    plain = connect_catalog("lake", options, tmp_path)
    assert sorted(plain.list_tables(NAMESPACE)) == [(NAMESPACE, TABLE), (NAMESPACE, ERRORS)]
    for name in (TABLE, ERRORS):
        table = plain.load_table((NAMESPACE, name))
        assert set(table.metadata.refs) == {"main"}
        for entry in table.metadata.snapshot_log:
            table.scan(snapshot_id=entry.snapshot_id).to_arrow()
    print(kind, "killed", KILLS, "outcomes", sorted(outcomes, key=str))
