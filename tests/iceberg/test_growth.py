"""What an operation on an Iceberg table reads does not grow with its snapshots, its files or the catalog's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table import update
from support.iceberg import declared
from support.iceberg_environments import run_there
from support.iceberg_runs import APPEND, NAMESPACE, TABLE, UPSERT, Work, access_of, lake, run, written
from support.torture import TORTURE

from rivet_dagster.catalogs.iceberg.catalog import IcebergCatalog
from rivet_dagster.model.storage import OLDER

FEW, MANY = (1_000, 10_000) if TORTURE else (10, 60)
WORK = Work([7], 3, APPEND)


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count the files that are opened and written, and the tables that are loaded."""
    counted: Counter[str] = Counter()

    def count(of: type, name: str) -> None:
        call = getattr(of, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            counted[name] += 1
            return call(*arguments, **options)

        patched.setattr(of, name, counting)

    with monkeypatch.context() as patched:
        for name in ("open", "create"):
            count(PyArrowFile, name)
        count(SqlCatalog, "load_table")
        yield counted


class Grown:
    """A catalog with the table ``orders``, made as large as wanted by commits of its metadata alone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.catalog: IcebergCatalog = lake(declared("sqlite", root / "lake"), root)
        run(self.catalog, Work([1], 1, identity="first/orders"), root)
        self.numbers = iter(range(10**9))

    def add_snapshots(self, number: int) -> None:
        """Add snapshots of the same rows, each published by a run of its own."""
        found = access_of(self.catalog).load(TABLE)
        last = found.current_snapshot()
        updates: list[Any] = []
        for n in range(1, number + 1):
            facts = {**last.summary.additional_properties, "rivet.identity": f"history {n}"}
            changes = {
                "snapshot_id": n,
                "sequence_number": found.metadata.last_sequence_number + n,
                "timestamp_ms": last.timestamp_ms + n,
                "parent_snapshot_id": n - 1 or last.snapshot_id,
                "summary": type(last.summary)(last.summary.operation, **facts),
            }
            updates.append(update.AddSnapshotUpdate.model_validate({"snapshot": last.model_copy(update=changes)}))
            reference = {"ref-name": "main", "type": "branch", "snapshot-id": n}
            updates.append(update.SetSnapshotRefUpdate.model_validate(reference))
        found.catalog.commit_table(found, (), tuple(updates))

    def add_files(self, number: int) -> None:
        """Add files of one row each, which are links of one file."""
        (self.root / "files").mkdir()
        one = self.root / "files/one.parquet"
        pq.write_table(pa.table({"id": pa.array([9], pa.int64()), "net": pa.array([9], pa.int64())}), one)
        paths = [one.with_name(f"{n}.parquet") for n in range(number)]
        for path in paths:
            path.hardlink_to(one)
        found = access_of(self.catalog).load(TABLE)
        found.add_files([str(path) for path in paths], check_duplicate_files=False)

    def add_tables(self, number: int) -> None:
        """Add empty tables."""
        plain = access_of(self.catalog).catalog
        for n in range(number):
            plain.create_table((NAMESPACE, f"other_{n}"), pa.schema([("id", pa.int64())]))

    def operations(self) -> dict[str, Callable[[], Any]]:
        """Return what is counted."""
        catalog, root = self.catalog, self.root

        def work(**changes: Any) -> Work:
            return WORK.having(identity=f"run-{next(self.numbers)}/orders", **changes)

        def environment(end: Callable[[str], Any]) -> None:
            name = f"pr-{next(self.numbers)}"
            run_there(catalog, work(), root, name)
            assert len(catalog.built(name)) == 1
            end(name)

        def rollback() -> None:
            older = next(version.name for version in catalog.versions(TABLE) if version.state == OLDER)
            with catalog.restage(TABLE, older) as transaction:
                transaction.commit(f"back-{next(self.numbers)}/orders")

        return {
            "append": lambda: run(catalog, work(), root),
            "merge": lambda: run(catalog, work(plan=UPSERT), root),
            "aborted": lambda: written(catalog, work(), root).abort(),
            "withheld": lambda: run(catalog, work(end="withhold"), root),
            "current": lambda: catalog.current(TABLE),
            "published_by": lambda: catalog.published_by(TABLE, "first/orders"),
            "versions": lambda: catalog.versions(TABLE),
            "statistics": lambda: catalog.statistics(catalog.current(TABLE)),
            "rollback": rollback,
            "environment, merged": lambda: environment(catalog.merge),
            "environment, dropped": lambda: environment(catalog.drop),
            "errors": lambda: run(catalog, work(errors=["bad"]), root),
            "errors_of": lambda: catalog.errors_of(catalog.current(TABLE)),
        }

    def costs(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Counter[str]]:
        """Return what each operation costs, the second time."""
        found = {}
        for name, operation in self.operations().items():
            operation()
            with counting(monkeypatch) as counted:
                operation()
            found[name] = Counter(counted)
        return found


@pytest.mark.nightly
@pytest.mark.parametrize("what", ["snapshots", "files", "tables"])
def test_the_files_that_are_read_do_not_grow(tmp_path, monkeypatch, what):
    costs = []
    for size in (FEW, MANY):
        (tmp_path / str(size)).mkdir()
        grown = Grown(tmp_path / str(size))
        getattr(grown, f"add_{what}")(size)
        costs.append(grown.costs(monkeypatch))
    few, many = costs
    assert few["append"]["open"] > 3
    assert few["append"]["create"] > 3
    assert many == few
