"""Keeping what other Dagster assets return, through the same steps as everything else, and giving it back."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.engines.arrow_values import arrow_rows, convertible, untyped
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.heartbeat import kept_alive
from rivet_dagster.execution.refs import MaterializedRef
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.transaction import PAUSES
from rivet_dagster.model.kept import Part, kept_table
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Published, Staged

if TYPE_CHECKING:
    import pyarrow as pa


def keep(runtime: Runtime, path: Sequence[str], part: Part | None, value: Any, identity: str) -> Published:
    """Store the rows of ``value`` as the asset ``path``, or one partition of it, once for each ``identity``.

    No engine takes part unless the rows, or their types, are its own. Whatever goes wrong leaves what was kept before.
    Raises RVT-505 for what is no rows, and RivetErrors of storage and engine.
    """
    catalog, table = runtime.catalog(runtime.assembly.workspace), kept_table(path, part)
    published = catalog.published_by(table, identity) or _published(runtime, catalog, table, value, identity)
    for other in runtime.kept.replaced_by(path, part):
        catalog.evict(other)
    return published


def kept_reference(
    runtime: Runtime, path: Sequence[str], keys: Collection[str] | None = None, all_of_them: bool = True
) -> MaterializedRef:
    """A handle on what is kept of an asset, or of these partitions of it. Raises RVT-401, RVT-411."""
    kept = runtime.kept
    versions = kept.whole(path) if keys is None else kept.partitions(path, keys, all_of_them=all_of_them)
    rows = sum(version.statistics.rows for version in versions)
    return _reference(runtime, "/".join(path), kept.relation(path, versions), rows)


def _published(
    runtime: Runtime, catalog: Catalog, table: str, value: Any, identity: str, pauses: Sequence[float] = PAUSES
) -> Published:
    staged = catalog.stage(table, {})
    try:
        with kept_alive(catalog, staged):
            _write(runtime, catalog, staged, value)
            written, statistics = catalog.audit(staged)
            try:
                return catalog.publish(staged, identity)
            except RivetError as error:
                if error.code != "RVT-405" or not pauses:
                    raise
            time.sleep(random.uniform(pauses[0] / 2, pauses[0]))
            # Of what has been written: the value itself may be gone with its reading.
            again = _reference(runtime, table, written, statistics.rows)
            published = _published(runtime, catalog, table, again, identity, pauses[1:])
        catalog.discard(staged)
        return published
    except BaseException:
        catalog.discard(staged)
        raise


def _reference(runtime: Runtime, name: str, relation: Relation, rows: int) -> MaterializedRef:
    def load(session: EngineSession) -> Frame:
        return session.load(relation)

    return MaterializedRef(name, runtime.default_engine.session, load, stored=relation, rows=rows)


def _write(runtime: Runtime, catalog: Catalog, staged: Staged, value: Any) -> None:
    rows = value.stored_rows() if isinstance(value, MaterializedRef) else arrow_rows(value)
    if rows is not None:
        _refuse_untyped(rows.schema)
        with convertible(value):
            if catalog.put(staged, rows):
                return
    elif type(value).__module__ == "builtins":
        raise _no_rows(value)  # no need to start an engine that knows more kinds of frames
    session = runtime.default_engine.session()
    try:
        if rows is not None:
            frame = session.from_value(rows)
        else:
            frame = value.frame_in(session) if isinstance(value, MaterializedRef) else session.from_value(value)
        if frame is None:
            raise _no_rows(value)
        session.write(frame, staged.target)
    finally:
        session.close()


def _no_rows(value: Any) -> RivetError:
    kind = "nothing" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"
    return RivetError("RVT-505", f"the asset returned {kind}")


def _refuse_untyped(schema: pa.Schema) -> None:
    import pyarrow as pa

    void = [field.name for field in schema if pa.types.is_null(field.type)]
    if void:
        raise untyped(void)
