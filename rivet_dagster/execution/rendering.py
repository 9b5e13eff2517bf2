"""Which text of each template a run asks, and what it gives the query to bind and to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.compiler.fusion import FusedQuery, subset_queries
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.engines.contract import EngineSession, Typed
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.watermark import watermark
from rivet_dagster.model.joint import SQL
from rivet_dagster.model.storage import Published
from rivet_dagster.sql.target import RUN_STARTED_AT, target_view, watermark_of


@dataclass(frozen=True)
class Rendered:
    """The queries whose union by name is one joint of a group, the values of their parameters by name, and the
    published versions that they name besides the joints."""

    queries: tuple[FusedQuery, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    targets: Mapping[str, Published] = field(default_factory=dict)


def render_for_run(
    runtime: Runtime, group: FusedGroup, exit_name: str, started: datetime, session: EngineSession
) -> Rendered:
    """What a run that began at ``started`` asks.

    A template is incremental where its sink has been published, and has a watermark if the template uses one.
    ``session`` finds watermarks that storage does not tell. Raises RVT-511.
    """
    rendered = render_whole(runtime.assembly, group, exit_name, started)
    parameters, targets = dict(rendered.parameters), {}
    incremental: dict[str, str] = {}
    for name in sorted({name for query in rendered.queries for name, _ in query.ctes}):
        joint = runtime.assembly.joint(name)
        needs = joint.template
        if needs is None or needs.sink is None or joint.sql_incremental is None:
            continue
        sink = runtime.assembly.joint(needs.sink)
        assert sink.catalog is not None and sink.table is not None
        published = runtime.catalog(sink.catalog).current(sink.table)
        if published is None:
            continue
        if needs.watermark:
            value = watermark(runtime, sink, published, session)
            if value is None:
                continue
            parameters[watermark_of(sink.name)] = value
        if needs.this:
            targets[target_view(sink.name)] = published
        incremental[name] = joint.sql_incremental
    queries = tuple(_with_texts(query, incremental) for query in rendered.queries)
    return Rendered(queries, parameters, targets)


def render_whole(
    assembly: CompiledAssembly, group: FusedGroup, exit_name: str, started: datetime | None = None
) -> Rendered:
    """What a first run asks, put together from the plan's texts; by default one that begins now."""
    joints = [assembly.joint(name) for name in group.joints]
    texts = {joint.name: joint.sql for joint in joints if joint.type == SQL and joint.sql is not None}
    queries = subset_queries(exit_name, group.joints, {joint.name: joint.upstream for joint in joints}, texts)
    needs = [assembly.joint(name).template for query in queries for name, _ in query.ctes]
    starts = any(one is not None and one.run_started_at for one in needs)
    start = Typed(started or datetime.now(UTC), "timestamp")
    return Rendered(queries, {RUN_STARTED_AT: start} if starts else {})


def _with_texts(query: FusedQuery, texts: Mapping[str, str]) -> FusedQuery:
    return replace(query, ctes=tuple((name, texts.get(name, text)) for name, text in query.ctes))
