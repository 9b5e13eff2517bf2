"""Storing the values of external assets as tables, by the same steps as those of joints, and reading them."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.external_assets import ExternalRows
from rivet_dagster.engines.arrow_values import arrow_rows, convertible, untyped_columns
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import Conflict, RivetError
from rivet_dagster.execution.environments import refuse_external_assets_without_environments
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.sources import external_frame, version_position
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing.publish import PAUSES
from rivet_dagster.model.external_assets import Part, external_table
from rivet_dagster.model.inputs import Position, UnknownPosition
from rivet_dagster.model.storage import Published
from rivet_dagster.model.write_plan import ReplaceAll

if TYPE_CHECKING:
    import pyarrow as pa


def store_external_asset(
    runtime: Runtime, path: Sequence[str], part: Part | None, value: Any, identity: str
) -> Published:
    """Store the rows of ``value`` as the asset ``path``, or one partition of it, once for each ``identity``.

    No engine is used unless the value is a frame of an engine, or has types that only an engine can store. If it fails,
    what was stored before stays. Raises RVT-505 for a value without rows, and RivetErrors of storage and engine.
    """
    refuse_external_assets_without_environments(runtime)
    catalog, table = runtime.target_catalog(runtime.assembly.workspace), external_table(path, part)
    published = catalog.published_by(table, identity) or _published(runtime, catalog, table, value, identity)
    for other in runtime.external_assets.replaced_by(path, part):
        catalog.evict(other)
    return published


def external_reference(
    runtime: Runtime, path: Sequence[str], keys: Collection[str] | None = None, all_of_them: bool = True
) -> MaterializedRef:
    """Return a handle on the rows of an external asset, or of its partitions ``keys``. Raises RVT-401, RVT-411."""
    stored = runtime.external_assets
    versions = stored.whole(path) if keys is None else stored.partitions(path, keys, all_of_them=all_of_them)
    rows = sum(version.statistics.rows for version in versions)
    return _reference(runtime, "/".join(path), stored.rows(path, versions), rows, version_position(*versions))


def _published(
    runtime: Runtime, catalog: HasTargets, table: str, value: Any, identity: str, pauses: Sequence[float] = PAUSES
) -> Published:
    with _stored(runtime, catalog, table, value) as transaction:
        whole = transaction.whole
        try:
            return transaction.commit(identity)
        except Conflict:
            if not pauses:
                raise
        time.sleep(random.uniform(pauses[0] / 2, pauses[0]))
        # Retry with the rows that have been written, since the value itself may be an iterator that is exhausted.
        columns = whole.statistics.columns
        stored = ExternalRows(columns, ((whole.relation, columns),))
        again = _reference(runtime, table, stored, whole.statistics.rows, UnknownPosition())
        return _published(runtime, catalog, table, again, identity, pauses[1:])


@contextmanager
def _stored(runtime: Runtime, catalog: HasTargets, table: str, value: Any) -> Iterator[TableTransaction]:
    """Yield a transaction to which the rows of ``value`` have been written, by an engine if one is needed."""
    rows = value.stored_rows() if isinstance(value, MaterializedRef) else arrow_rows(value)
    if rows is not None:
        with catalog.begin(table) as transaction:
            if _put(transaction, rows, value):
                yield transaction
                return
    elif type(value).__module__ == "builtins":
        raise _no_rows(value)  # no engine takes such values for frames, so none is started
    with closing(runtime.default_engine.session()) as session, catalog.begin(table, session) as transaction:
        transaction.write(ReplaceAll(), _frame(session, value, rows))
        yield transaction


def _put(transaction: TableTransaction, rows: pa.RecordBatchReader, value: Any) -> bool:
    _refuse_untyped(rows.schema)
    with convertible(value):
        return transaction.put(rows)


def _frame(session: EngineSession, value: Any, rows: pa.RecordBatchReader | None) -> Frame:
    if rows is None and isinstance(value, MaterializedRef):
        return value.frame_in(session)
    frame = session.from_value(value if rows is None else rows)
    if frame is None:
        raise _no_rows(value)
    return frame


def _reference(runtime: Runtime, name: str, stored: ExternalRows, rows: int, position: Position) -> MaterializedRef:
    def load(session: EngineSession) -> Frame:
        return external_frame(session, stored)

    return MaterializedRef(
        name, runtime.default_engine.session, load, stored=stored.relation, rows=rows, position=lambda: position
    )


def _no_rows(value: Any) -> RivetError:
    kind = "nothing" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"
    return RivetError("RVT-505", f"the asset returned {kind}")


def _refuse_untyped(schema: pa.Schema) -> None:
    import pyarrow as pa

    void = [field.name for field in schema if pa.types.is_null(field.type)]
    if void:
        raise untyped_columns(void)
