"""How the rows of a source or of an error table are read, and what tells that the data of a source has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.sources import ListsFiles
from rivet_dagster.catalogs.capabilities.targets import HasErrorTables
from rivet_dagster.catalogs.external_assets import Columns, ExternalRows
from rivet_dagster.catalogs.parquet_rows import needs_no_engine, schema
from rivet_dagster.catalogs.rewriting.error_retention import loaded_errors
from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.reading.landing import all_files, landing_zone, version_of
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.row_error import locating_errors
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.external_assets import DAGSTER
from rivet_dagster.model.inputs import (
    FilesPosition,
    LandedFile,
    Position,
    SnapshotPosition,
    UnknownPosition,
    VersionPosition,
)
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.relations import CatalogTable, JdbcTable, Relation
from rivet_dagster.model.row_errors import ERROR_COLUMNS, SUFFIX
from rivet_dagster.model.storage import Projection, Published
from rivet_dagster.sql.source_query import underscored_columns, used_columns
from rivet_dagster.sql.write_strategies.alignment import projection

_PART = "rivet_part"


def source_frame(
    runtime: Runtime,
    joint: SourceJoint,
    session: EngineSession,
    window: Window | None = None,
    relation: Callable[[], Relation] | None = None,
    untransformed: bool = False,
) -> Frame:
    """Return the source's rows, read in place with its inline transforms; of a landing zone those of all files.

    Of an external asset that has the partitions of ``window``, only those are read, unless the source has partitions of
    its own. ``relation`` returns the relation that is read, by default the current one. The inline transforms are not
    applied if ``untransformed``.
    """
    with locating_errors(joint):
        if joint.catalog == DAGSTER:
            rows = runtime.external_assets.source(joint.table, _asset_window(joint, window))
            return _external_source_frame(session, rows, joint, untransformed)
        current = relation() if relation is not None else current_relation(runtime, joint)
        if not (isinstance(current, JdbcTable) and session.runs_in(current.url)):
            refuse_unreadable(joint, current)
        applied = no_transforms(joint, session, current) if untransformed else transforms(joint)
        return session.load(current, applied)


def refuse_unreadable(source: SourceJoint, relation: Relation) -> None:
    """Raise RVT-422 for the columns that the source reads, and no engine can."""
    unreadable = relation.unreadable if isinstance(relation, JdbcTable) else {}
    if not unreadable:
        return
    lines = dict.fromkeys(unreadable, source.line)
    if source.columns:
        used = {f"columns.{alias}": used_columns([(alias, text)], None) for alias, text in source.columns}
        used["filter"] = used_columns([], source.filter)
        keys = {name: key for key, names in reversed(used.items()) for name in names}
        lines = {name: source.lines.get(keys[name.lower()], source.line) for name in unreadable if name.lower() in keys}
    if lines:
        raise RivetError.of(
            Diagnostic(
                "RVT-422",
                f"the column '{name}' of {source.table} {unreadable[name].reason}",
                source.name,
                source.file,
                line,
                f"{unreadable[name].remedy} Or leave it out of `columns`.",
            )
            for name, line in lines.items()
        )


def load_separated(
    session: EngineSession, relation: Relation, source: SourceJoint, untransformed: bool = False
) -> tuple[Frame, Frame] | None:
    """Return the rows of the source, with its inline transforms or without, and its corrupt records as ``record``.

    None if there can be none, or the source has a limit: its rows are any of the first that are read.
    """
    if source.limit is not None:
        return None
    applied = no_transforms(source, session, relation) if untransformed else transforms(source)
    return session.load_separated(relation, applied)


def source_frames_apart(
    runtime: Runtime,
    joint: SourceJoint,
    session: EngineSession,
    relation: Callable[[], Relation],
    untransformed: bool,
) -> tuple[Frame, Frame] | None:
    """Return the source's rows without corrupt records, and these; None if there can be none."""
    if joint.catalog == DAGSTER:
        return None
    with locating_errors(joint):
        return load_separated(session, relation(), joint, untransformed)


def transforms(source: SourceJoint) -> Projection:
    """Return the inline transforms of a source."""
    return Projection(source.columns, source.filter, source.limit)


def no_transforms(source: SourceJoint, session: EngineSession, relation: Relation) -> Projection:
    """Return the projection of all columns of ``relation``, with those hidden ones that the source's expressions use.

    Spark has such columns, as `_metadata` of files, only where a relation itself is read.
    """
    underscored = underscored_columns(source.columns, source.filter)
    if not underscored:
        return Projection()
    columns = [name for name, _ in session.columns(session.load(relation, Projection()))]
    known = {name.lower() for name in columns}
    hidden = [name for name in underscored if name.lower() not in known]
    return Projection(tuple([(name, None) for name in (*columns, *hidden)])) if hidden else Projection()


def current_relation(runtime: Runtime, joint: SourceJoint) -> Relation:
    """Return the relation of the source as it is now; of a landing zone that of all files. Raises RVT-321, RVT-403."""
    if joint.landing:
        return all_files(runtime, joint)
    return runtime.catalog(joint.catalog).relation(joint.table, joint.options)


def source_files(runtime: Runtime, joint: SourceJoint) -> tuple[LandedFile, ...]:
    """Return the current files of the source. It takes no engine. Raises RVT-321, RVT-403."""
    with locating_errors(joint):
        if joint.landing:
            return landing_zone(runtime, joint).files()
        return capable(runtime.catalog(joint.catalog), ListsFiles).files(joint.table, joint.options)


def version_of_files(runtime: Runtime, joint: SourceJoint, files: Sequence[LandedFile]) -> str:
    """Return the data version of the source when it consisted of ``files``. It takes no engine. Raises RVT-403."""
    with locating_errors(joint):
        if joint.landing:
            return version_of(files)
        catalog = capable(runtime.catalog(joint.catalog), ListsFiles)
        return catalog.version_of_files(joint.table, joint.options, files)


def data_version(runtime: Runtime, joint: SourceJoint) -> str:
    """Return a short text that changes when the source's data changes. It takes no engine. Raises RVT-403."""
    with locating_errors(joint):
        if joint.catalog == DAGSTER:
            return runtime.external_assets.data_version(joint.table, joint.options)
        if joint.landing:
            return version_of(landing_zone(runtime, joint).files())
        return runtime.catalog(joint.catalog).data_version(joint.table, joint.options)


class CurrentSource:
    """A source as it is now; its table is looked up once, for its relation and its position."""

    def __init__(self, runtime: Runtime, joint: SourceJoint, window: Window | None = None) -> None:
        self._runtime = runtime
        self._joint = joint
        self._window = window
        self._relation: Relation | None = None

    def relation(self) -> Relation:
        """Return the relation of the source, the same each time. Raises RVT-321, RVT-403."""
        if self._relation is None:
            self._relation = current_relation(self._runtime, self._joint)
        return self._relation

    def position(self) -> Position:
        """Return the position of the source before its relation is read; unknown if only an engine could find it."""
        runtime, joint = self._runtime, self._joint
        try:
            if joint.catalog == DAGSTER:
                return version_position(*runtime.external_assets.read(joint.table, _asset_window(joint, self._window)))
            catalog = runtime.catalog(joint.catalog)
            if CatalogTable in catalog.gives:
                current = self.relation()
                if isinstance(current, CatalogTable) and current.snapshot is not None:
                    return SnapshotPosition(joint.catalog, ".".join(current.identifier[1:]), current.snapshot)
            if self._relation is None and isinstance(catalog, ListsFiles) and not joint.landing:
                self._relation, version = catalog.find(joint.table, joint.options)
                return FilesPosition(version)
            return FilesPosition(data_version(runtime, joint))
        except RivetError:
            return UnknownPosition()  # reading the source reports the error, if there is one


def _asset_window(joint: SourceJoint, window: Window | None) -> Window | None:
    """Return the partitions of an external asset that are read; the source's own are selected from its rows."""
    return window if joint.partitions is None else None


def version_position(*published: Published) -> VersionPosition:
    """Return the position of an input that consists of these versions, all of one catalog."""
    versions = {version.table: version.version for version in published}
    return VersionPosition(published[0].catalog, versions, published[0].environment)


def _external_source_frame(
    session: EngineSession, rows: ExternalRows, joint: SourceJoint, untransformed: bool = False
) -> Frame:
    """Return a frame of ``rows`` with the inline transforms of ``joint``, or without. Raises RVT-503, RVT-519."""
    if rows.relation is not None:
        applied = no_transforms(joint, session, rows.relation) if untransformed else transforms(joint)
        return session.load(rows.relation, applied)
    if untransformed:
        return external_frame(session, rows)
    with session.views():
        session.register(joint.name, external_frame(session, rows))
        return session.query(joint.sql)


def external_frame(session: EngineSession, rows: ExternalRows) -> Frame:
    """Return a frame with the columns of ``rows``. Raises RVT-503, RVT-519."""
    if rows.relation is not None:
        return session.load(rows.relation)
    return session.union_by_name([_part(session, relation, known, rows.columns) for relation, known in rows.parts])


def _part(session: EngineSession, relation: Relation, known: Columns, columns: Columns) -> Frame:
    frame = session.load(relation)
    if known == columns:
        return frame
    with session.views():
        session.register(_PART, frame)
        return session.query(projection(columns, known, _PART))


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
