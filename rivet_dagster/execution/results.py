"""What a run of a group found out, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.errors import RivetError
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.storage import ColumnStatistics, Published


@dataclass(frozen=True)
class CheckResult:
    """One check's verdict.

    ``violations`` is None where the check could not run; then ``error`` says why, and it counts as failed.
    ``samples`` are up to ten violating rows; ``seconds`` the time it took, shared by the checks of one pass.
    """

    joint: str
    check: CompiledCheck
    passed: bool
    violations: int | None
    sql: str
    seconds: float
    samples: tuple[Mapping[str, Any], ...] = ()
    error: str | None = None

    @property
    def blocks(self) -> bool:
        """Whether nothing may be published because of it."""
        return not self.passed and self.check.blocking


@dataclass(frozen=True)
class Rows:
    """Rows that a write inserted, updated and deleted, and how many the target holds afterwards."""

    inserted: int
    updated: int
    deleted: int
    total: int

    @classmethod
    def of(cls, published: Published) -> Rows:
        """What the write of a published version did."""
        record = published.record
        return cls(record.inserted, record.updated, record.deleted, published.statistics.rows)


@dataclass(frozen=True)
class GroupResult:
    """The run of one group or of a part of it.

    ``phases`` are seconds; ``published`` is None where the exit was not selected, its gate failed, or an empty batch
    was skipped. ``counted`` are the rows of inner joints that were computed as an exit of a partial run,
    ``partition_rows`` those that the exit's table now holds of each partition that the run covered, by key.
    ``not_archived`` says which files that were read could not be moved away; the rows are published all the same.
    ``plans`` say by joint how the engine computed what this run wrote, and ``values`` by column, in lower case, what
    storage knows of the values of ``published`` if this run wrote it.
    """

    group: str
    phases: Mapping[str, float]
    checks: tuple[CheckResult, ...] = ()
    published: Published | None = None
    rows: Rows | None = None
    counted: Mapping[str, int] = field(default_factory=dict)
    skipped_empty: bool = False
    not_archived: RivetError | None = None
    partition_rows: Mapping[str, int] = field(default_factory=dict)
    plans: Mapping[str, QueryPlan] = field(default_factory=dict)
    values: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    @property
    def gate_failed(self) -> bool:
        """Whether a check kept the rows from being published."""
        return any(result.blocks for result in self.checks)
