"""How the rows of any joint are read: stored ones from their version, all others as their query over today's data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rivet_dagster.compiler.fusion import subset_query
from rivet_dagster.compiler.plan import CompiledJoint, FusedGroup
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.refs import MaterializedRef
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.joint import PYTHON, SOURCE
from rivet_dagster.model.storage import Projection, Published


def reference(runtime: Runtime, name: str) -> MaterializedRef:
    """A lazy handle on the joint's rows; what is not there is missed when it is used (RVT-401, RVT-403)."""
    joint = runtime.assembly.joint(name)
    engine = runtime.engine(joint.engine)
    if joint.type == SOURCE:
        return MaterializedRef(name, engine.session, lambda session: source_frame(runtime, joint, session))
    if joint.catalog is None:
        return MaterializedRef(name, engine.session, lambda session: _view(runtime, joint, session))
    published = runtime.catalog(joint.catalog).current(joint.table or name)
    if published is None:
        return MaterializedRef(name, engine.session, lambda session: _never_materialized(name))
    return published_reference(runtime, name, published)


def published_reference(runtime: Runtime, name: str, published: Published) -> MaterializedRef:
    """A handle on one published version of the joint's table."""
    relation = runtime.catalog(published.catalog).read(published)
    return MaterializedRef(
        name,
        runtime.engine(runtime.assembly.joint(name).engine).session,
        lambda session: session.load(relation),
        stored=relation,
        rows=published.statistics.rows,
    )


def source_frame(runtime: Runtime, joint: CompiledJoint, session: EngineSession) -> Frame:
    """The source's rows, in place, with its inline transforms."""
    assert joint.catalog is not None and joint.table is not None
    try:
        relation = runtime.catalog(joint.catalog).source(joint.table, joint.options)
    except RivetError as error:
        raise at_joint(error, joint) from error.__cause__
    return session.load(relation, Projection(joint.columns, joint.filter, joint.limit))


def frames(
    runtime: Runtime, group: FusedGroup, exit_name: str, session: EngineSession, given: Mapping[str, MaterializedRef]
) -> list[Frame]:
    """The lazy frames whose union by name is ``exit_name``; the views they need are registered in ``session``.

    ``given`` are handles on joints outside the group; what it lacks is read from storage.
    """
    assembly = runtime.assembly
    upstream = {name: assembly.joint(name).upstream for name in group.joints}
    texts = {name: sql for name in group.joints if (sql := _own_sql(assembly.joint(name))) is not None}
    kept, queries = subset_query(exit_name, group.joints, upstream, texts)
    for name in _outside(kept, texts, upstream):
        session.register(name, (given.get(name) or reference(runtime, name)).frame_in(session))
    found = []
    for query in queries:
        try:
            found.append(session.query(query))
        except RivetError as error:
            raise at_joint(error, _culprit(runtime, group, kept, session)) from error.__cause__
    return found


def at_joint(error: RivetError, joint: CompiledJoint) -> RivetError:
    """The same error with the joint and its place in it."""
    first = error.diagnostics[0]
    if first.joint is not None:
        return error
    return RivetError(
        first.code, first.message, joint=joint.name, file=joint.file, line=joint.line, remediation=first.remediation
    )


def _own_sql(joint: CompiledJoint) -> str | None:
    return joint.sql if joint.type not in (SOURCE, PYTHON) else None


def _outside(kept: Iterable[str], texts: Mapping[str, str], upstream: Mapping[str, tuple[str, ...]]) -> list[str]:
    """What the queries name without computing it: sources and joints of other groups, each once."""
    wanted = dict.fromkeys(u for name in kept for u in upstream[name])
    return [name for name in wanted if name not in texts]


def _culprit(runtime: Runtime, group: FusedGroup, kept: tuple[str, ...], session: EngineSession) -> CompiledJoint:
    """The first joint of the group whose query fails by itself, so that the error names one file out of ten."""
    assembly = runtime.assembly
    upstream = {name: assembly.joint(name).upstream for name in group.joints}
    texts = {name: sql for name in group.joints if (sql := _own_sql(assembly.joint(name))) is not None}
    for name in kept:
        if name not in texts:
            continue
        try:
            session.query(subset_query(name, group.joints, upstream, texts)[1][0])
        except RivetError:
            return assembly.joint(name)
    return assembly.joint(group.exit)


def _view(runtime: Runtime, joint: CompiledJoint, session: EngineSession) -> Frame:
    group = runtime.assembly.group(joint.group)
    return frames(runtime, group, joint.name, session, {})[0]


def _never_materialized(name: str) -> Frame:
    raise RivetError("RVT-401", f"'{name}' has never been materialized", joint=name)
