"""What a run binds in a test: its start and partitions, and for ``incremental`` the watermark and the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from rivet_dagster.compiler.group_query import Cte
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import Typed
from rivet_dagster.errors import RivetError
from rivet_dagster.model.partitions import PARTITION_END, PARTITION_KEYS, PARTITION_START, Partitions
from rivet_dagster.model.spark_type import parse_type
from rivet_dagster.model.watermark import is_watermark_type
from rivet_dagster.project_tests.declared import GivenRows, ProjectTest
from rivet_dagster.project_tests.values import inferred, read_value
from rivet_dagster.sql.target import RUN_STARTED_AT, watermark_of


@dataclass(frozen=True)
class Later:
    """The ``joints`` that contribute their incremental text, and what they read: ``this`` of a ``sink``, parameters."""

    joints: frozenset[str] = frozenset()
    sink: str | None = None
    this: GivenRows | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def incremental_run(test: ProjectTest, assembly: CompiledAssembly, target: str, texts: Sequence[Cte]) -> Later:
    """Return what is incremental in the test's run. Raises RVT-204, RVT-205.

    As in a run, a NULL watermark means everything: the joints whose text needs one contribute the text of a first run.
    """
    run = test.incremental
    assert run is not None
    sink = _sink(target, texts)
    if sink is None:
        message = f"'{target}' has no incremental text: nothing in it asks is_incremental()"
        raise RivetError.of([run.place.diagnostic("RVT-204", message)])
    variants = {cte.joint: cte.incremental for cte in texts if cte.incremental and cte.incremental.sink == sink}
    watermark = any(variant.watermark for variant in variants.values())
    if watermark and not run.has_watermark:
        message = "`incremental` needs `watermark`, which the text reads; null means everything"
        raise RivetError.of([run.place.diagnostic("RVT-205", message)])
    value = _watermark(test, assembly, sink) if watermark and run.watermark is not None else None
    joints = {name for name, variant in variants.items() if value is not None or not variant.watermark}
    if run.this is None and any(variants[name].this for name in joints):
        message = "`incremental` needs `this`, the rows of the target, which the text reads"
        raise RivetError.of([run.place.diagnostic("RVT-205", message)])
    return Later(frozenset(joints), sink, run.this, {watermark_of(sink): value} if value is not None else {})


def _sink(target: str, texts: Sequence[Cte]) -> str | None:
    """Return the sink whose target the run finds: the one of the target's own text, the target, or the only one."""
    sinks = {cte.joint: cte.incremental.sink for cte in texts if cte.incremental is not None}
    if target in sinks:
        return sinks[target]
    distinct = set(sinks.values())
    if target in distinct:
        return target
    return distinct.pop() if len(distinct) == 1 else None


def _watermark(test: ProjectTest, assembly: CompiledAssembly, sink: str) -> Typed:
    """Return the watermark with the type of its column, of the value itself where the type is not known."""
    run = test.incremental
    assert run is not None
    declared = assembly.target(sink)
    column = declared.watermark.column.lower() if declared is not None and declared.watermark is not None else None
    known = {name.lower(): str(type_) for name, type_ in (run.this.types or () if run.this else ())}
    planned = {field.name.lower(): field.type for field in assembly.joint(sink).schema or ()}
    name = known.get(column or "") or planned.get(column or "")
    try:
        type_ = parse_type(name) if name is not None and is_watermark_type(name) else inferred([run.watermark])
        return Typed(read_value(run.watermark, type_), str(type_))
    except ValueError as error:
        raise RivetError.of([run.place.diagnostic("RVT-204", f"`watermark`: {error}")]) from None


_NO_END = "9999-12-31"


def parameters_of_partitions(names: Sequence[str], partitions: Partitions | None) -> dict[str, Any]:
    """Return the values of those of ``names`` that every run binds: now, and the span of all partitions.

    Raise ValueError with the end of a sentence for the keys of partitions of time, of which a test has none.
    """
    values: dict[str, Any] = {}
    if RUN_STARTED_AT in names:
        values[RUN_STARTED_AT] = Typed(datetime.now(UTC), "timestamp")
    if partitions is None:
        return values
    if PARTITION_KEYS in names:
        if partitions.of_time:
            raise ValueError(f"reads :{PARTITION_KEYS}, and a test has no run of its partitions")
        values[PARTITION_KEYS] = list(partitions.values)
    zone = ZoneInfo(partitions.timezone)
    for name, text in ((PARTITION_START, partitions.start), (PARTITION_END, partitions.end or _NO_END)):
        if name in names and text is not None:
            values[name] = datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)
    return values
