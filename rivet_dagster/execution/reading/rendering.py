"""The queries of a run: the text of each template, the parameters and views that they need, and how they are run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.compiler.group_query import FusedQuery, GroupQuery
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.engines.contract import EngineSession, Frame, Typed
from rivet_dagster.execution.reading.watermark import watermark
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.partitions import PARTITION_PARAMETERS
from rivet_dagster.model.storage import Published
from rivet_dagster.sql.target import RUN_STARTED_AT, is_variable, target_view, watermark_of


@dataclass(frozen=True)
class RunQueries:
    """The queries whose union by name is one joint of a ``group``, and what they need from a run.

    ``parameters`` are values by name; ``of_partitions`` names the parameters, by joint, whose values depend on the
    run's partitions. ``targets`` are the published versions that the queries read besides the joints, by view;
    ``upon`` names the versions of tables downstream that incremental texts are about, by joint; empty texts for none.
    ``variables`` names the parameters whose values come from the environment. ``group_query`` is what the queries are
    of, and ``incremental`` names the joints that contribute their incremental text. If the group quarantines rows, the
    queries give the good rows, and ``errors`` gives the errors of the others, None if there can be none.
    """

    group: str
    queries: tuple[FusedQuery, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    of_partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    targets: Mapping[str, Published] = field(default_factory=dict)
    upon: Mapping[str, str] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    group_query: GroupQuery = GroupQuery((), ())
    incremental: frozenset[str] = frozenset()
    errors: FusedQuery | None = None


def render_for_run(
    runtime: Runtime,
    group: FusedGroup,
    exit_name: str,
    started: datetime,
    session: EngineSession,
    as_written: bool = False,
) -> RunQueries:
    """Return the queries of a run that began at ``started``; if ``as_written``, not those of the good rows alone.

    A template is rendered incrementally if its sink has been published, and has a watermark if the template uses one.
    ``session`` computes watermarks that storage's statistics do not hold. Raises RVT-511.
    """
    query = _query(group, exit_name)
    parameters: dict[str, Any] = {}
    targets: dict[str, Published] = {}
    upon: dict[str, str] = {}
    incremental = set()
    for cte in query.ctes:
        variant = cte.incremental
        if variant is None:
            continue
        target = runtime.assembly.target(variant.sink)
        published = runtime.target_catalog(target.catalog).current(target.table) if target is not None else None
        upon[variant.sink] = published.version if published is not None else ""
        if target is None or published is None:
            continue
        if variant.watermark:
            sink = runtime.assembly.computed(variant.sink)
            value = watermark(runtime, sink, target.watermark, published, session)
            if value is None:
                continue
            parameters[watermark_of(variant.sink)] = value
        if variant.this:
            targets[target_view(variant.sink)] = published
        incremental.add(cte.joint)
    return _rendered(group, query, started, incremental, parameters, targets, upon, as_written)


def render_whole(
    group: FusedGroup, exit_name: str, started: datetime | None = None, as_written: bool = False
) -> RunQueries:
    """Return the queries of a first run, which reads everything; ``started`` is now by default."""
    query = _query(group, exit_name)
    upon = {cte.incremental.sink: "" for cte in query.ctes if cte.incremental is not None}
    return _rendered(group, query, started or datetime.now(UTC), upon=upon, as_written=as_written)


def _query(group: FusedGroup, exit_name: str) -> GroupQuery:
    """Return the query that computes a joint of the group; an empty one for a Python joint."""
    query = group.query or GroupQuery((), ())
    return query if exit_name == group.exit else query.of(exit_name)


def _rendered(
    group: FusedGroup,
    query: GroupQuery,
    started: datetime,
    incremental: Collection[str] = (),
    parameters: Mapping[str, Any] | None = None,
    targets: Mapping[str, Published] | None = None,
    upon: Mapping[str, str] | None = None,
    as_written: bool = False,
) -> RunQueries:
    used = {cte.joint: cte.parameters_for(cte.joint in incremental) for cte in query.ctes}
    start = (
        {RUN_STARTED_AT: Typed(started, "timestamp")} if any(RUN_STARTED_AT in names for names in used.values()) else {}
    )
    windows = {joint: tuple(name for name in names if name in PARTITION_PARAMETERS) for joint, names in used.items()}
    quarantines = group.target is not None and group.target.errors is not None and not as_written
    return RunQueries(
        group.name,
        query.good(incremental) if quarantines else query.fused(incremental),
        {**start, **(parameters or {})},
        {joint: names for joint, names in windows.items() if names},
        targets or {},
        upon or {},
        frozenset(name for names in used.values() for name in names if is_variable(name)),
        query,
        frozenset(incremental),
        query.errors(incremental) if quarantines else None,
    )


def run_query(session: EngineSession, query: FusedQuery, values: Mapping[str, Any]) -> Frame:
    """Return the lazy result of a query, whose parameters have ``values``. Raises RVT-503."""
    if query.dialect is None:
        return session.query(query.sql, values)
    return session.query_in(query.dialect, query.sql, values)
