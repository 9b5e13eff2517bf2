"""Which text of each template a run asks, and what it gives the query to bind and to read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.compiler.group_query import FusedQuery, GroupQuery
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.engines.contract import EngineSession, Typed
from rivet_dagster.execution.reading.watermark import watermark
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.partitions import PARTITION_PARAMETERS
from rivet_dagster.model.storage import Published
from rivet_dagster.sql.target import RUN_STARTED_AT, target_view, watermark_of


@dataclass(frozen=True)
class Rendered:
    """The queries whose union by name is one joint of a ``group``, and what they need of a run.

    ``parameters`` are values by name; ``of_partitions`` names the parameters, by joint, that take theirs from the run's
    partitions. ``targets`` are the published versions that the queries name besides the joints.
    """

    group: str
    queries: tuple[FusedQuery, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    of_partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    targets: Mapping[str, Published] = field(default_factory=dict)


def render_for_run(
    runtime: Runtime, group: FusedGroup, exit_name: str, started: datetime, session: EngineSession
) -> Rendered:
    """Return what a run that began at ``started`` asks.

    A template is incremental where its sink has been published, and has a watermark if the template uses one.
    ``session`` finds watermarks that storage does not tell. Raises RVT-511.
    """
    query = _query(group, exit_name)
    parameters: dict[str, Any] = {}
    targets: dict[str, Published] = {}
    incremental = set()
    for cte in query.ctes:
        later = cte.incremental
        if later is None:
            continue
        target = runtime.assembly.target(later.sink)
        published = runtime.target_catalog(target.catalog).current(target.table) if target is not None else None
        if target is None or published is None:
            continue
        if later.watermark:
            sink = runtime.assembly.computed(later.sink)
            value = watermark(runtime, sink, target.watermark, published, session)
            if value is None:
                continue
            parameters[watermark_of(later.sink)] = value
        if later.this:
            targets[target_view(later.sink)] = published
        incremental.add(cte.joint)
    return _rendered(group, query, started, incremental, parameters, targets)


def render_whole(group: FusedGroup, exit_name: str, started: datetime | None = None) -> Rendered:
    """Return what a first run asks; by default one that begins now."""
    return _rendered(group, _query(group, exit_name), started or datetime.now(UTC))


def _query(group: FusedGroup, exit_name: str) -> GroupQuery:
    """Return what computes a joint of the group; there is nothing to ask for what a Python function gives."""
    query = group.query or GroupQuery((), ())
    return query if exit_name == group.exit else query.of(exit_name)


def _rendered(
    group: FusedGroup,
    query: GroupQuery,
    started: datetime,
    incremental: Collection[str] = (),
    parameters: Mapping[str, Any] | None = None,
    targets: Mapping[str, Published] | None = None,
) -> Rendered:
    used = {cte.joint: cte.parameters_for(cte.joint in incremental) for cte in query.ctes}
    start = (
        {RUN_STARTED_AT: Typed(started, "timestamp")} if any(RUN_STARTED_AT in names for names in used.values()) else {}
    )
    windows = {joint: tuple(name for name in names if name in PARTITION_PARAMETERS) for joint, names in used.items()}
    return Rendered(
        group.name,
        query.fused(incremental),
        {**start, **(parameters or {})},
        {joint: names for joint, names in windows.items() if names},
        targets or {},
    )
