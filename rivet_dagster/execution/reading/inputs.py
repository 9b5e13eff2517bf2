"""How the rows of any joint are read: stored ones from their version, all others as their query over today's data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.listing import ListsFiles
from rivet_dagster.compiler.group_query import FusedQuery
from rivet_dagster.compiler.joints import CompiledJoint, QueryJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError, is_configuration
from rivet_dagster.execution.reading.external_rows import external_source_frame
from rivet_dagster.execution.reading.landing import all_files, landing_zone, version_of
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.rendering import Rendered, render_whole
from rivet_dagster.execution.reading.windows import bound, within
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.external_assets import DAGSTER
from rivet_dagster.model.inputs import FilesPosition, LandedFile, Position, UnknownPosition, VersionPosition
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.storage import Projection, Published
from rivet_dagster.model.target import Target
from rivet_dagster.sql.fuse import locate

OF_THE_ENGINE = frozenset({"RVT-502", "RVT-506"})


def reference(runtime: Runtime, name: str, window: Window | None = None) -> MaterializedRef:
    """A lazy handle on the joint's rows, those in ``window`` alone where it says which of them these are.

    What is not there is missed when it is used (RVT-401, RVT-403).
    """
    joint = runtime.assembly.joint(name)
    if not isinstance(joint, SourceJoint) and runtime.assembly.target(name) is None:
        engine = runtime.engine(joint.engine)
        return MaterializedRef(name, engine.session, lambda session: _view(runtime, joint, session, window))
    return within(_whole(runtime, joint, window), joint, window)


def _whole(runtime: Runtime, joint: CompiledJoint, window: Window | None) -> MaterializedRef:
    """All rows of the joint; of an external asset only those of partitions that it has in common with ``window``."""
    engine = runtime.engine(joint.engine)
    if isinstance(joint, SourceJoint):
        return MaterializedRef(
            joint.name,
            engine.session,
            lambda session: source_frame(runtime, joint, session, window),
            position=lambda: source_position(runtime, joint, window),
        )
    target = runtime.assembly.target(joint.name)
    published = runtime.target_catalog(target.catalog).current(target.table) if target is not None else None
    if published is None:
        return MaterializedRef(joint.name, engine.session, lambda session: _not_there(joint.name, target))
    return published_reference(runtime, joint.name, published)


def published_reference(runtime: Runtime, name: str, published: Published) -> MaterializedRef:
    """A handle on one published version of the joint's table."""
    relation = runtime.target_catalog(published.catalog).read(published)
    position = version_position(published)
    return MaterializedRef(
        name,
        runtime.engine(runtime.assembly.joint(name).engine).session,
        lambda session: session.load(relation),
        stored=relation,
        rows=published.statistics.rows,
        position=lambda: position,
    )


def version_position(*published: Published) -> VersionPosition:
    """The position of those who read these versions, of one catalog."""
    versions = {version.table: version.version for version in published}
    return VersionPosition(published[0].catalog, versions, published[0].environment)


def source_position(runtime: Runtime, joint: SourceJoint, window: Window | None = None) -> Position:
    """Where the data of a source stands now; unknown where nobody can tell without an engine."""
    try:
        if joint.catalog == DAGSTER:
            own = window if joint.partitions is None else None
            return version_position(*runtime.external_assets.read(joint.table, own))
        return FilesPosition(data_version(runtime, joint))
    except RivetError:
        return UnknownPosition()  # reading it tells what is wrong, if anything


def source_frame(runtime: Runtime, joint: SourceJoint, session: EngineSession, window: Window | None = None) -> Frame:
    """The source's rows, in place, with its inline transforms; of a landing zone those of all files.

    Of an external asset with the partitions of ``window`` only these, unless the source has partitions of its own.
    """
    try:
        if joint.catalog == DAGSTER:
            own = window if joint.partitions is None else None
            return external_source_frame(session, runtime.external_assets.source(joint.table, own), joint)
        if joint.landing:
            relation = all_files(runtime, joint)
        else:
            relation = runtime.catalog(joint.catalog).relation(joint.table, joint.options)
        return session.load(relation, Projection(joint.columns, joint.filter, joint.limit))
    except RivetError as error:
        raise at_joint(error, joint) from error.__cause__


def data_version(runtime: Runtime, joint: SourceJoint) -> str:
    """A short text that changes when the source's data does; no engine takes part. Raises RVT-403."""
    try:
        if joint.catalog == DAGSTER:
            return runtime.external_assets.data_version(joint.table, joint.options)
        if joint.landing:
            return version_of(landing_zone(runtime, joint).files())
        return runtime.catalog(joint.catalog).data_version(joint.table, joint.options)
    except RivetError as error:
        raise at_joint(error, joint) from error.__cause__


def inputs(
    runtime: Runtime, group: str, names: Iterable[str], given: Mapping[str, MaterializedRef], window: Window | None
) -> dict[str, MaterializedRef]:
    """Handles for ``group`` on joints of others, on their rows in ``window`` alone.

    What ``given`` lacks is read from storage.
    """
    joints = [runtime.assembly.joint(name) for name in names]
    found = {j.name: within(given.get(j.name) or _whole(runtime, j, window), j, window) for j in joints}
    return {name: crossed(runtime, ref, group) for name, ref in found.items()}


def crossed(runtime: Runtime, ref: MaterializedRef, group: str) -> MaterializedRef:
    """The handle on rows as the plan has them cross to ``group``."""
    return ref.passed_as_arrow() if runtime.passes_arrow(ref.joint, group) else ref


def positions(refs: Mapping[str, MaterializedRef]) -> dict[str, Position]:
    """Where each of the inputs stands now, before it is read, of those that can tell."""
    return {name: ref.position() for name, ref in refs.items()}


def frames(
    runtime: Runtime,
    rendered: Rendered,
    session: EngineSession,
    given: Mapping[str, MaterializedRef],
    window: Window | None = None,
    read: dict[str, Position] | None = None,
) -> list[Frame]:
    """The lazy frames of the queries; the views they need are registered in ``session``.

    ``given`` are handles on joints outside the group; ``window`` is what a run of partitions covers. ``read`` takes up
    where each of them stood.
    """
    values = bound(runtime.assembly, rendered.of_partitions, window)
    outside = sorted({name for query in rendered.queries for name in query.inputs})
    refs = inputs(runtime, rendered.group, outside, given, window)
    if read is not None:
        read.update(positions(refs))
    for name, ref in refs.items():
        session.register(name, ref.frame_in(session))
    for name, published in rendered.targets.items():
        session.register(name, session.load(runtime.target_catalog(published.catalog).read(published)))
    found = []
    for query in rendered.queries:
        try:
            found.append(session.query(query.sql, {**values, **rendered.parameters}))
        except RivetError as error:
            raise at_line(error, query, runtime.assembly) from error.__cause__
    return found


def at_line(error: RivetError, query: FusedQuery, assembly: CompiledAssembly) -> RivetError:
    """An error whose line counts in the text of ``query``, at the joint and the line of the file that it means."""
    first = error.diagnostics[0]
    place = locate(query.ctes, first.line) if first.joint is None and first.line is not None else None
    if place is None:
        return at_joint(error, assembly.joint(query.result))
    joint = assembly.joint(place[0])
    text = joint.sql_line if isinstance(joint, QueryJoint) else None
    line = text + place[1] - 1 if text is not None else joint.line
    return RivetError(
        first.code, first.message, joint=joint.name, file=joint.file, line=line, remediation=first.remediation
    )


def at_joint(error: RivetError, joint: CompiledJoint) -> RivetError:
    """The same error with the joint and its place in it; an engine that does not start is no joint's fault."""
    first = error.diagnostics[0]
    if first.joint is not None or first.code in OF_THE_ENGINE or is_configuration(first.code):
        return error
    return RivetError(
        first.code, first.message, joint=joint.name, file=joint.file, line=joint.line, remediation=first.remediation
    )


def source_files(runtime: Runtime, joint: SourceJoint) -> tuple[LandedFile, ...]:
    """The files that the source is read from now; no engine takes part. Raises RVT-321, RVT-403."""
    with placed(joint):
        if joint.landing:
            return landing_zone(runtime, joint).files()
        return capable(runtime.catalog(joint.catalog), ListsFiles).files(joint.table, joint.options)


@contextmanager
def placed(joint: CompiledJoint) -> Iterator[None]:
    """What the block raises without a place of its own is raised at the joint."""
    try:
        yield
    except RivetError as error:
        raise at_joint(error, joint) from error.__cause__


def _view(runtime: Runtime, joint: CompiledJoint, session: EngineSession, window: Window | None) -> Frame:
    group = runtime.assembly.group(joint.group)
    return frames(runtime, render_whole(group, joint.name), session, {}, window)[0]


def _not_there(name: str, target: Target | None) -> Frame:
    why = "has never been materialized"
    if target is not None and target.retention == "run":
        why += ", or has been evicted after its last reader (`retention: run`)"
    raise RivetError("RVT-401", f"'{name}' {why}", joint=name)
