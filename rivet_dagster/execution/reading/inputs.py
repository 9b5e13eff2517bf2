"""How the rows of a joint are read: stored joints from their published version, others by running their query."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.listing import ListsFiles
from rivet_dagster.compiler.group_query import FusedQuery
from rivet_dagster.compiler.joints import CompiledJoint, QueryJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError, is_configuration
from rivet_dagster.execution.reading.corrupt_records import load_separated
from rivet_dagster.execution.reading.external_rows import external_source_frame
from rivet_dagster.execution.reading.landing import all_files, holds_new_rows, landing_zone, version_of
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.rendering import Rendered, render_whole
from rivet_dagster.execution.reading.source_transforms import no_transforms, transforms
from rivet_dagster.execution.reading.windows import bound, within, within_untransformed
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.external_assets import DAGSTER
from rivet_dagster.model.inputs import (
    FilesPosition,
    LandedFile,
    Position,
    SnapshotPosition,
    UnknownPosition,
    VersionPosition,
    combined,
    passed_on,
)
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.relations import CatalogTable, Relation
from rivet_dagster.model.storage import Published
from rivet_dagster.model.target import Target
from rivet_dagster.sql.fuse import locate
from rivet_dagster.sql.target import source_of

OF_THE_ENGINE = frozenset({"RVT-502", "RVT-506"})


def reference(runtime: Runtime, name: str, window: Window | None = None) -> MaterializedRef:
    """Return a lazy handle on the joint's rows; if the joint has the partitions of ``window``, only on those.

    Missing data is reported when the handle is used (RVT-401, RVT-403).
    """
    joint = runtime.assembly.joint(name)
    if not isinstance(joint, SourceJoint) and runtime.assembly.target(name) is None:
        engine = runtime.engine(joint.engine)
        return MaterializedRef(name, engine.session, lambda session: _view(runtime, joint, session, window))
    return within(_whole(runtime, joint, window), joint, window)


def _whole(runtime: Runtime, joint: CompiledJoint, window: Window | None) -> MaterializedRef:
    """Return a handle on all rows of the joint, or on those partitions of an external asset that are in ``window``."""
    engine = runtime.engine(joint.engine)
    if isinstance(joint, SourceJoint):
        # Determined once, so that the position is that of the snapshot that is read.
        relation = cache(lambda: _relation(runtime, joint))

        def handle(untransformed: bool) -> MaterializedRef:
            return MaterializedRef(
                joint.name,
                engine.session,
                lambda session: source_frame(runtime, joint, session, window, relation, untransformed),
                position=lambda: source_position(runtime, joint, window, relation),
                separated=lambda session: _source_separated(runtime, joint, session, relation, untransformed),
                untransformed=None if untransformed else handle(True),
            )

        return handle(False)
    published = runtime.version_read(joint.name)
    if published is None:
        target = runtime.assembly.target(joint.name)
        return MaterializedRef(joint.name, engine.session, lambda session: _refuse_missing(joint.name, target))
    return published_reference(runtime, joint.name, published)


def published_reference(runtime: Runtime, name: str, published: Published) -> MaterializedRef:
    """Return a handle on one published version of the joint's table."""
    relation = runtime.target_catalog(published.catalog).read(published)
    position = version_position(published)
    return MaterializedRef(
        name,
        runtime.engine(runtime.assembly.joint(name).engine).session,
        lambda session: session.load(relation),
        stored=relation,
        rows=published.statistics.rows,
        position=lambda: position,
        passes_on=passed_on(name, published.inputs) if holds_new_rows(runtime.assembly.target(name)) else {},
    )


def version_position(*published: Published) -> VersionPosition:
    """Return the position of an input that consists of these versions, all of one catalog."""
    versions = {version.table: version.version for version in published}
    return VersionPosition(published[0].catalog, versions, published[0].environment)


def source_position(
    runtime: Runtime,
    joint: SourceJoint,
    window: Window | None = None,
    relation: Callable[[], Relation] | None = None,
) -> Position:
    """Return the current position of a source; unknown if only an engine could determine it.

    ``relation`` returns the relation that is read, by default the current one.
    """
    try:
        if joint.catalog == DAGSTER:
            own = window if joint.partitions is None else None
            return version_position(*runtime.external_assets.read(joint.table, own))
        if CatalogTable in runtime.catalog(joint.catalog).gives:
            found = relation() if relation is not None else _relation(runtime, joint)
            if isinstance(found, CatalogTable) and found.snapshot is not None:
                return SnapshotPosition(joint.catalog, ".".join(found.identifier[1:]), found.snapshot)
        return FilesPosition(data_version(runtime, joint))
    except RivetError:
        return UnknownPosition()  # reading the source reports the error, if there is one


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
    try:
        if joint.catalog == DAGSTER:
            own = window if joint.partitions is None else None
            rows = runtime.external_assets.source(joint.table, own)
            return external_source_frame(session, rows, joint, untransformed)
        found = relation() if relation is not None else _relation(runtime, joint)
        applied = no_transforms(joint, session, found) if untransformed else transforms(joint)
        return session.load(found, applied)
    except RivetError as error:
        raise at_joint(error, joint) from error.__cause__


def _source_separated(
    runtime: Runtime,
    joint: SourceJoint,
    session: EngineSession,
    relation: Callable[[], Relation],
    untransformed: bool,
) -> tuple[Frame, Frame] | None:
    """Return the source's rows without corrupt records, and these; None if there can be none."""
    if joint.catalog == DAGSTER:
        return None
    with placed(joint):
        return load_separated(session, relation(), joint, untransformed)


def _relation(runtime: Runtime, joint: SourceJoint) -> Relation:
    if joint.landing:
        return all_files(runtime, joint)
    return runtime.catalog(joint.catalog).relation(joint.table, joint.options)


def data_version(runtime: Runtime, joint: SourceJoint) -> str:
    """Return a short text that changes when the source's data changes. It takes no engine. Raises RVT-403."""
    try:
        if joint.catalog == DAGSTER:
            return runtime.external_assets.data_version(joint.table, joint.options)
        if joint.landing:
            return version_of(landing_zone(runtime, joint).files())
        return runtime.catalog(joint.catalog).data_version(joint.table, joint.options)
    except RivetError as error:
        raise at_joint(error, joint) from error.__cause__


def inputs(
    runtime: Runtime,
    group: str,
    names: Iterable[str],
    given: Mapping[str, MaterializedRef],
    window: Window | None,
    untransformed: Container[str] = (),
) -> dict[str, MaterializedRef]:
    """Return handles for ``group`` on joints of other groups, on their rows in ``window`` alone.

    Joints that are not in ``given`` are read from storage; ``untransformed`` are the sources whose rows are wanted
    without their inline transforms.
    """
    refs = {}
    for name in names:
        joint = runtime.assembly.joint(name)
        ref = given.get(name) or _whole(runtime, joint, window)
        if isinstance(joint, SourceJoint) and name in untransformed:
            assert ref.untransformed is not None
            refs[name] = within_untransformed(ref.untransformed, joint, window)
        else:
            refs[name] = within(ref, joint, window)
    return {name: crossed(runtime, ref, group) for name, ref in refs.items()}


def crossed(runtime: Runtime, ref: MaterializedRef, group: str) -> MaterializedRef:
    """Return the handle as ``group`` reads it by the plan: from storage, or as Arrow rows of this process."""
    return ref.passed_as_arrow() if runtime.passes_arrow(ref.joint, group) else ref


def positions(refs: Mapping[str, MaterializedRef]) -> dict[str, Position]:
    """Return the current position of each input, before it is read, and what stored joints pass on."""
    found = {name: ref.position() for name, ref in refs.items()}
    for name, position in (each for ref in refs.values() for each in ref.passes_on.items()):
        found[name] = combined(found.get(name), position)
    return found


def frames(
    runtime: Runtime,
    rendered: Rendered,
    session: EngineSession,
    given: Mapping[str, MaterializedRef],
    window: Window | None = None,
    read: dict[str, Position] | None = None,
    corrupt: dict[str, Frame] | None = None,
) -> list[Frame]:
    """Return the lazy frames of the queries, and register the views that they need in ``session``.

    ``given`` are handles on joints outside of the group; ``window`` holds the partitions that the run covers. The
    positions of all inputs are added to ``read``. With ``corrupt``, corrupt records of sources are left out, and added
    to it as frames with the column ``record``, by source.
    """
    outside = sorted({name for query in rendered.queries for name in query.inputs})
    sources = {source: view for view in outside if (source := source_of(view)) is not None}
    refs = inputs(runtime, rendered.group, [source_of(name) or name for name in outside], given, window, sources.keys())
    if read is not None:
        read.update(positions(refs))
    for name, ref in refs.items():
        separated = ref.separated_in(session) if corrupt is not None else None
        if corrupt is not None and separated is not None:
            corrupt[name] = separated[1]
        session.register(sources.get(name, name), ref.frame_in(session) if separated is None else separated[0])
    for name, published in rendered.targets.items():
        session.register(name, session.load(runtime.target_catalog(published.catalog).read(published)))
    return [query_frame(runtime, rendered, query, session, window) for query in rendered.queries]


def query_frame(
    runtime: Runtime, rendered: Rendered, query: FusedQuery, session: EngineSession, window: Window | None = None
) -> Frame:
    """Return the lazy frame of one query, whose views ``frames`` has registered. Raises RVT-503."""
    values = bound(runtime.assembly, rendered.of_partitions, window)
    try:
        variables = runtime.values_of(rendered.variables)
        return session.query(query.sql, {**values, **variables, **rendered.parameters})
    except RivetError as error:
        raise at_line(error, query, runtime.assembly) from error.__cause__


def at_line(error: RivetError, query: FusedQuery, assembly: CompiledAssembly) -> RivetError:
    """Return an error whose line is one of the text of ``query``, at the joint and the line in the joint's file."""
    first = error.diagnostics[0]
    location = locate(query.ctes, first.line) if first.joint is None and first.line is not None else None
    name, line_of_text = location if location is not None else (query.result, 1)
    if all(joint.name != name for joint in assembly.joints):
        return error  # of a part of the query that is no joint's own text, such as the errors of rows
    joint = assembly.joint(name)
    if location is None:
        return at_joint(error, joint)
    if not isinstance(joint, QueryJoint):
        return at_joint(error, joint)
    at = joint.place(line_of_text, dict(query.ctes)[name])
    message = f"{first.message}{at.note}"
    return RivetError(first.code, message, joint=name, file=at.file, line=at.line, remediation=first.remediation)


def at_joint(error: RivetError, joint: CompiledJoint) -> RivetError:
    """Return the error with the joint, its file and line, unless it is an error of the engine or the configuration."""
    first = error.diagnostics[0]
    if first.joint is not None or first.code in OF_THE_ENGINE or is_configuration(first.code):
        return error
    return RivetError(
        first.code, first.message, joint=joint.name, file=joint.file, line=joint.line, remediation=first.remediation
    )


def source_files(runtime: Runtime, joint: SourceJoint) -> tuple[LandedFile, ...]:
    """Return the current files of the source. It takes no engine. Raises RVT-321, RVT-403."""
    with placed(joint):
        if joint.landing:
            return landing_zone(runtime, joint).files()
        return capable(runtime.catalog(joint.catalog), ListsFiles).files(joint.table, joint.options)


@contextmanager
def placed(joint: CompiledJoint) -> Iterator[None]:
    """Add the joint, its file and line to RivetErrors of the block that name no joint."""
    try:
        yield
    except RivetError as error:
        raise at_joint(error, joint) from error.__cause__


def _view(runtime: Runtime, joint: CompiledJoint, session: EngineSession, window: Window | None) -> Frame:
    group = runtime.assembly.group(joint.group)
    return frames(runtime, render_whole(group, joint.name), session, {}, window)[0]


def _refuse_missing(name: str, target: Target | None) -> Frame:
    why = "has never been materialized"
    if target is not None and target.retention == "run":
        why += ", or has been evicted after its last reader (`retention: run`)"
    raise RivetError("RVT-401", f"'{name}' {why}", joint=name)
