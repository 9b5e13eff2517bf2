"""How the rows of an error table are read: those of the published version of the table beside it."""

from __future__ import annotations

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.targets import HasErrorTables
from rivet_dagster.catalogs.parquet_rows import needs_no_engine, schema
from rivet_dagster.catalogs.rewriting.error_retention import loaded_errors
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.sources import version_position
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.row_errors import ERROR_COLUMNS, SUFFIX


def errors_reference(runtime: Runtime, name: str) -> MaterializedRef:
    """Return a lazy handle on the errors that were published with a joint's current version.

    If there are none to be read, that is reported when the handle is used (RVT-401).
    """
    joint, target = runtime.assembly.computed(name), runtime.assembly.target(name)
    assert target is not None
    catalog = capable(runtime.catalog(target.catalog), HasErrorTables)
    published = runtime.version_read(name)
    relation = catalog.errors_of(published) if published is not None else None
    open_session = runtime.engine(joint.engine).session
    if published is None or relation is None:
        why = "has never been materialized" if published is None else "was last published without an error table"
        return MaterializedRef(name + SUFFIX, open_session, lambda _: _refuse(name, why))
    position = version_position(published)

    def load(session: EngineSession) -> Frame:
        return loaded_errors(session, relation)

    stored = relation if _has_columns(relation) else None
    return MaterializedRef(name + SUFFIX, open_session, load, stored=stored, position=lambda: position)


def _has_columns(relation: Relation) -> bool:
    """Return whether the rows, where they are read without an engine, have the columns that ``loaded_errors`` gives."""
    return not needs_no_engine(relation) or {*ERROR_COLUMNS} <= {*schema(relation).names}


def _refuse(name: str, why: str) -> Frame:
    raise RivetError("RVT-401", f"'{name}' {why}", joint=name)
