"""What all steps of one group's run have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.execution.phases import PhaseClock
from rivet_dagster.execution.refs import MaterializedRef
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.partitions import Window


@dataclass(frozen=True)
class ThisRun:
    """One run of a group, or of some of its joints.

    ``given`` are handles on joints of other groups; ``started`` is when it began, in UTC; ``window`` are the partitions
    that it covers, of a group that has some. ``plans`` takes up how each joint was computed that was written.
    """

    runtime: Runtime
    group: FusedGroup
    given: Mapping[str, MaterializedRef]
    clock: PhaseClock
    started: datetime
    window: Window | None = None
    plans: dict[str, QueryPlan] = field(default_factory=dict)
