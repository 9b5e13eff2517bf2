"""The results of a group's run, of its checks and of what it has staged, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.staging import StagesForRuns
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.errors import RivetError
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.storage import ColumnStatistics, Published


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    ``violations`` is None if the check could not run; then ``error`` says why, and it counts as failed. ``samples`` are
    up to ten violating rows; ``seconds`` is the time that it took, the same for all checks that share a query.
    ``errors`` are those that the check `evaluation_errors` judged, None for other checks.
    """

    joint: str
    check: CompiledCheck
    passed: bool
    violations: int | None
    sql: str
    seconds: float
    samples: tuple[Mapping[str, Any], ...] = ()
    error: str | None = None
    errors: RowErrorCounts | None = None

    @property
    def blocks(self) -> bool:
        """Whether it is a failed blocking check, after which nothing may be published."""
        return not self.passed and self.check.blocking


@dataclass(frozen=True)
class Rows:
    """The numbers of rows that a write inserted, updated and deleted, and of all rows of the target after it."""

    inserted: int
    updated: int
    deleted: int
    total: int

    @classmethod
    def of(cls, published: Published) -> Rows:
        """Return the numbers of the write of a published version."""
        record = published.record
        return cls(record.inserted, record.updated, record.deleted, published.statistics.rows)


@dataclass(frozen=True)
class SiteErrors:
    """The row errors of one expression with one condition, Spark's name of the error, in one run.

    ``file`` and ``line`` are where the expression stands; ``samples`` are up to ten rows of the operator's input.
    """

    condition: str
    joint: str
    file: str | None
    line: int | None
    expression: str
    count: int
    message: str = ""
    samples: tuple[Mapping[str, Any], ...] = ()

    def without_values(self) -> SiteErrors:
        """Return the errors without values of rows: without samples, and without the message, which may quote some."""
        return replace(self, message="", samples=())


@dataclass(frozen=True)
class RowErrorCounts:
    """The rows that a quarantining run could not evaluate.

    ``count`` and ``sites`` are those of this run, sites with most errors first. ``total`` counts all errors of the
    published ``table``, those of earlier versions that still hold included.
    """

    table: str
    count: int
    total: int
    sites: tuple[SiteErrors, ...] = ()

    def without_values(self) -> RowErrorCounts:
        """Return the errors without values of rows."""
        return replace(self, sites=tuple(site.without_values() for site in self.sites))


@dataclass(frozen=True)
class GroupResult:
    """The result of the run of a group, or of a part of it.

    ``phases`` are seconds by phase. ``published`` is None if the exit was not selected, its gate failed, or an empty
    batch was skipped. ``counted`` are the row counts of inner joints that were computed as exits of a partial run;
    ``partition_rows`` are those of the exit's table after the run, by key of the partitions that the run covered.
    ``staged`` is whether ``published`` is not published yet, but staged for the last step of the run;
    ``full_refresh`` is whether it replaces the table as a first run would.
    ``not_archived`` is the error for consumed files that could not be archived; the rows are published all the same.
    ``plans`` are the query plans of what this run wrote, by joint. ``values`` are storage's statistics of ``published``
    by column, in lower case, if this run wrote it. ``errors`` is None unless the group quarantines rows.
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
    errors: RowErrorCounts | None = None
    staged: bool = False
    full_refresh: bool = False

    @property
    def gate_failed(self) -> bool:
        """Whether a failed check prevented the rows from being published."""
        return any(result.blocks for result in self.checks)


@dataclass(frozen=True)
class StagedResult:
    """The table of a ``joint``, of which a run has staged a ``version`` under ``identity``."""

    joint: str
    catalog: str
    table: str
    version: str
    identity: str


StagedBy = Callable[[str], StagedResult | None]
"""Returns what a run has staged for a joint; None if the run has not materialized it."""


def version_of(catalog: Catalog, staged: StagedResult) -> Published | None:
    """Return the version that a run has staged; if it has been published meanwhile, the current one.

    Raises RVT-418 if it has been swept.
    """
    stages = capable(catalog, StagesForRuns)
    if is_published(catalog, staged):
        return stages.current(staged.table)
    version = stages.staged_by(staged.table, staged.identity)
    if version is None:
        raise swept(staged)
    return version


def is_published(catalog: Catalog, staged: StagedResult) -> bool:
    """Return whether what a run has staged has been published, even if later versions followed."""
    return capable(catalog, StagesForRuns).published_by(staged.table, staged.identity) is not None


def swept(staged: StagedResult) -> RivetError:
    """Return RVT-418 for a table whose staged version does not exist any more."""
    message = f"the rows that its run staged for {staged.catalog}.{staged.table} ({staged.version}) have been swept"
    return RivetError("RVT-418", message, joint=staged.joint)
