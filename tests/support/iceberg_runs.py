"""Publications on an Iceberg catalog without a JVM, and processes that are killed in the middle of them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy.orm import Session

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.environments.tables_over_base import TablesOverBase
from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.iceberg.access import TableAccess
from rivet_dagster.catalogs.iceberg.environments.iceberg_environments import IcebergEnvironmentTables
from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog
from rivet_dagster.catalogs.iceberg.nessie.server import NessieServer
from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction
from rivet_dagster.catalogs.parquet_rows import no_errors
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.row_errors import ERROR_COLUMNS
from rivet_dagster.model.storage import Published
from rivet_dagster.model.write_plan import Append, ReplaceAll, Upsert, WritePlan
from support.iceberg_duckdb import session

TABLE, ERRORS = "orders", "orders__errors"
NAMESPACE = "shop"
ERROR_SCHEMA = no_errors().schema


def lake(options: Mapping[str, Any], root: Path) -> IcebergCatalog:
    """Return the catalog ``lake``, with a default namespace."""
    return IcebergCatalog(CatalogSpec("lake", "iceberg", {**options, "default-namespace": NAMESPACE}), root)


@dataclass(frozen=True)
class Work:
    """What a run does: it writes rows by a plan, with errors or without, and ends in some way.

    ``ids`` are the column ``id`` of its rows, whose column ``net`` is ``net``; with ``adds`` they have one column more.
    ``errors`` are the messages of its error table. It ends by ``commit``, ``abort`` or ``withhold``. ``options`` are
    those of the storage of ``table``.
    """

    ids: Sequence[int]
    net: int = 0
    plan: WritePlan = ReplaceAll()
    errors: Sequence[str] | None = None
    adds: bool = False
    end: str = "commit"
    identity: str = "run/orders"
    table: str = TABLE
    options: Mapping[str, Any] = field(default_factory=dict)

    def having(self, **changes: Any) -> Work:
        """Return the same work with something else."""
        return replace(self, **changes)

    @property
    def rows(self) -> pa.Table:
        """The rows."""
        columns = {"id": pa.array(self.ids, pa.int64()), "net": pa.array([self.net] * len(self.ids), pa.int64())}
        return pa.table(columns | ({"more": columns["net"]} if self.adds else {}))


APPEND, UPSERT = Append(), Upsert(keys=("id",))


def access_of(catalog: IcebergCatalog | TablesOverBase) -> TableAccess:
    """Return how the tables of a catalog, or of an environment of one, are opened."""
    if isinstance(catalog, IcebergCatalog):
        return catalog.access
    assert isinstance(catalog.environment, IcebergEnvironmentTables)
    return catalog.environment.access


def written(catalog: IcebergCatalog | TablesOverBase, work: Work, root: Path) -> IcebergTransaction:
    """Begin a transaction and write the rows and the errors."""
    engine = session(root, lake=access_of(catalog).options)
    transaction = catalog.begin(work.table, engine, work.options)
    frame = engine.from_value(work.rows)
    transaction.write(work.plan, frame, WriteContext(identity=work.identity))
    if work.errors is not None:
        errors = [
            dict.fromkeys(ERROR_COLUMNS, "x") | {"line": 7, "message": message, "found_at": None}
            for message in work.errors
        ]
        transaction.write_errors(f"{work.table}__errors", engine.from_value(pa.Table.from_pylist(errors, ERROR_SCHEMA)))
    return transaction


def run(catalog: IcebergCatalog | TablesOverBase, work: Work, root: Path) -> Published | None:
    """Carry out the whole run; return what it has published."""
    with written(catalog, work, root) as transaction:
        match work.end:
            case "commit":
                return transaction.commit(work.identity)
            case "withhold":
                transaction.withhold(work.identity)
    return None


def run_all(options: Mapping[str, Any], root: Path, work: Work) -> None:
    """Carry out the whole run on a catalog of its own, in a process that may be killed."""
    run(lake(options, root), work, root)


def run_killed_before_a_step(
    test: Connection, options: Mapping[str, Any], root: Path, work: Work | str, at: int
) -> None:
    """Run, send the name of each step before it is taken, and die just before number ``at``.

    A step is a commit or another change of the catalog, an object that is written or deleted, and in a catalog of
    folders a file that is linked, renamed or removed. ``rollback`` in place of a work publishes the oldest version,
    ``adopt`` takes over the table, and ``give_up`` gives it up.
    """
    catalog = lake(options, root)
    number = 0

    def step(name: str) -> None:
        nonlocal number
        test.send(name)
        if number == at:
            os.killpg(0, signal.SIGKILL)
        number += 1

    announce(step)
    if isinstance(work, Work):
        run(catalog, work, root)
    elif work in ("adopt", "give_up"):
        assert getattr(catalog, work)(TABLE)
    else:
        with catalog.restage(TABLE, catalog.versions(TABLE)[-1].name) as transaction:
            transaction.commit("rollback")


_CHANGES = ("os.link", "os.rename", "os.remove", "os.rmdir", "os.mkdir")


def announce(step: Callable[[str], None]) -> None:
    """Call ``step`` with the name of each step, before it is taken."""

    def before(home: type, method: str, name: Callable[..., object]) -> None:
        original = getattr(home, method)

        def announced(self: Any, *arguments: Any, **options: Any) -> Any:
            step(f"{method} {name(*arguments)}")
            return original(self, *arguments, **options)

        setattr(home, method, announced)

    call = NessieServer._call

    def announced_call(server: Any, method: str, path: str, *body: Any, **parameters: str) -> Any:
        if method != "GET" and not path.endswith("/contents"):
            step(f"{method} {path}")
        return call(server, method, path, *body, **parameters)

    NessieServer._call = announced_call  # type: ignore[method-assign]
    for home in (HadoopCatalog, SqlCatalog, RestCatalog):
        before(home, "commit_table", lambda table, *changes: ".".join(table.name()))
        before(home, "drop_table", str)
        before(home, "purge_table", str)
    before(Session, "commit", lambda: "of the database")
    before(PyArrowFileIO, "new_output", str)
    before(PyArrowFileIO, "delete", str)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES:
            step(" ".join([event, *(str(path) for path in arguments[:2] if isinstance(path, str | Path))]))

    sys.addaudithook(hook)


def heartbeats(warehouse: Path) -> list[Path]:
    """Return the heartbeats in a warehouse."""
    return sorted(warehouse.rglob("*.heartbeat"))


def expire_heartbeats(warehouse: Path) -> None:
    """Age all heartbeats, so that their runs count as dead."""
    for heartbeat in heartbeats(warehouse):
        heartbeat.write_text("2020-01-01T00:00:00+00:00")
