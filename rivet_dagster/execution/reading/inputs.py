"""How the rows of a joint, or of a window of its partitions, are read: published, or by running their query."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from rivet_dagster.compiler.group_query import FusedQuery
from rivet_dagster.compiler.joints import CompiledJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.landing import holds_new_rows
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.rendering import RunQueries, render_whole, run_query
from rivet_dagster.execution.reading.sources import (
    CurrentSource,
    source_frame,
    source_frames_apart,
    version_position,
)
from rivet_dagster.execution.row_error import locate_in_query
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.inputs import Position, combine_positions, passed_on
from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Published
from rivet_dagster.model.target import Target
from rivet_dagster.sql.parsing.embedding import in_parentheses
from rivet_dagster.sql.partitions import rows_in_window
from rivet_dagster.sql.row_errors.site import raises
from rivet_dagster.sql.source_query import projection
from rivet_dagster.sql.target import parameter, source_of


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
        # Looked up once, so that the position is that of what is read.
        source = CurrentSource(runtime, joint, window)
        return source_reference(runtime, joint, source.relation, source.position, window)
    published = runtime.version_read(joint.name)
    if published is None:
        target = runtime.assembly.target(joint.name)
        return MaterializedRef(joint.name, engine.session, lambda session: _refuse_missing(joint.name, target))
    return published_reference(runtime, joint.name, published)


def source_reference(
    runtime: Runtime,
    source: SourceJoint,
    relation: Callable[[], Relation],
    position: Callable[[], Position],
    window: Window | None = None,
) -> MaterializedRef:
    """Return a handle on the rows of a source, which are those of ``relation``, and its ``position``."""
    open_session = runtime.engine(source.engine).session

    def handle(untransformed: bool) -> MaterializedRef:
        return MaterializedRef(
            source.name,
            open_session,
            lambda session: source_frame(runtime, source, session, window, relation, untransformed),
            position=position,
            separated=lambda session: source_frames_apart(runtime, source, session, relation, untransformed),
            untransformed=None if untransformed else handle(True),
        )

    return handle(False)


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
    return {name: passed_to_group(runtime, ref, group) for name, ref in refs.items()}


def passed_to_group(runtime: Runtime, ref: MaterializedRef, group: str) -> MaterializedRef:
    """Return the handle as ``group`` reads it by the plan: from storage, or as Arrow rows of this process."""
    return ref.passed_as_arrow() if runtime.passes_arrow(ref.joint, group) else ref


def positions(refs: Mapping[str, MaterializedRef]) -> dict[str, Position]:
    """Return the current position of each input, before it is read, and what stored joints pass on."""
    positions = {name: ref.position() for name, ref in refs.items()}
    for name, position in (each for ref in refs.values() for each in ref.passes_on.items()):
        positions[name] = combine_positions(positions.get(name), position)
    return positions


def frames(
    runtime: Runtime,
    rendered: RunQueries,
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
    runtime: Runtime, rendered: RunQueries, query: FusedQuery, session: EngineSession, window: Window | None = None
) -> Frame:
    """Return the lazy frame of one query, whose views ``frames`` has registered. Raises RVT-503."""
    values = partition_values(runtime.assembly, rendered.of_partitions, window)
    try:
        variables = runtime.values_of(rendered.variables)
        return run_query(session, query, {**values, **variables, **rendered.parameters})
    except RivetError as error:
        raise locate_in_query(error, query, runtime.assembly) from error.__cause__


def _view(runtime: Runtime, joint: CompiledJoint, session: EngineSession, window: Window | None) -> Frame:
    group = runtime.assembly.group(joint.group)
    return frames(runtime, render_whole(group, joint.name), session, {}, window)[0]


def _refuse_missing(name: str, target: Target | None) -> Frame:
    why = "has never been materialized"
    if target is not None and target.retention == "run":
        why += ", or has been evicted after its last reader (`retention: run`)"
    raise RivetError("RVT-401", f"'{name}' {why}", joint=name)


def within(ref: MaterializedRef, joint: CompiledJoint, window: Window | None) -> MaterializedRef:
    """Return a handle on the rows of ``joint`` that lie in ``window``; on all rows if it has other or no partitions.

    The frame raises RVT-322 if the joint's partition column is missing or has a type without partitions.
    """
    partitions = joint.partitions
    if window is None or partitions is None or not partitions.chosen_by(window.partitions):
        return ref

    def narrowed(session: EngineSession, frame: Frame) -> Frame:
        kind = _kind(partitions, session.columns(frame), joint)
        whole = f"rivet_whole_{joint.name}"
        session.register(whole, frame)
        return session.query(*rows_in_window(whole, partitions, kind, window))

    return ref.with_rows(narrowed)


def within_untransformed(ref: MaterializedRef, source: SourceJoint, window: Window | None) -> MaterializedRef:
    """Return a handle on the rows of ``source`` before its inline transforms, as ``within`` on those behind them.

    A row whose partition column cannot be evaluated is in every window.
    """
    partitions = source.partitions
    if window is None or partitions is None or not partitions.chosen_by(window.partitions):
        return ref
    texts = {alias.lower(): text for alias, text in source.columns}

    def narrowed(session: EngineSession, frame: Frame) -> Frame:
        whole = f"rivet_whole_{source.name}"
        session.register(whole, frame)
        transformed = session.query(projection(whole, source.columns, None, None))
        kind = _kind(partitions, session.columns(transformed), source)
        text = texts.get(partitions.column.lower())
        if text is None:
            return session.query(*rows_in_window(whole, partitions, kind, window))
        return session.query(*rows_in_window(whole, partitions, kind, window, text, raises(in_parentheses(text))))

    return ref.with_rows(narrowed)


def _kind(partitions: Partitions, columns: Sequence[tuple[str, str]], joint: CompiledJoint) -> str:
    try:
        kind = partitions.type_in(columns)
    except ValueError as error:
        raise RivetError("RVT-322", str(error), joint=joint.name, file=joint.file, line=joint.line) from error
    assert kind is not None
    return kind


def partition_values(
    assembly: CompiledAssembly, needed: Mapping[str, tuple[str, ...]], window: Window | None
) -> Mapping[str, Any]:
    """Return the values of the partition parameters; ``needed`` names those that the query uses, by joint.

    Raises RVT-323 if they are needed and there is no window.
    """
    if window is not None:
        return window.parameters
    for name, used in needed.items():
        joint = assembly.joint(name)
        raise RivetError(
            "RVT-323",
            f"'{name}' is not stored, and only a run of its partitions knows {', '.join(map(parameter, used))}",
            joint=name,
            file=joint.file,
            line=joint.line,
            remediation="Store it with `eager: true`, or give what reads it the same partitions.",
        )
    return {}
