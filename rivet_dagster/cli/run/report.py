"""The report of a Dagster run, read from its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.runs.failure import was_not_started
from rivet_dagster.definitions.runs.identity import step_name
from rivet_dagster.definitions.specs.materialization_metadata import ROW_COUNT
from rivet_dagster.definitions.specs.samples_and_errors import DIAGNOSTICS
from rivet_dagster.definitions.specs.selection import LAST_STEP, published_with_run
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.row_error import SiteDiagnostic
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.joint import SOURCE

SUCCESS, FAILED, SKIPPED, CANCELED = "success", "failed", "skipped", "canceled"

_ENDS = (dg.DagsterEventType.STEP_SUCCESS, dg.DagsterEventType.STEP_FAILURE)

_INTERRUPTS = ("DagsterExecutionInterruptedError", "KeyboardInterrupt")


@dataclass(frozen=True)
class GroupReport:
    """The result of one group; ``rows`` is empty where nothing was published."""

    name: str
    status: str
    phases: Mapping[str, float] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckReport:
    """The result of one check."""

    joint: str
    check: str
    kind: str
    phase: str
    severity: str
    passed: bool
    violations: int | None
    samples: tuple[Mapping[str, Any], ...]
    sql: str
    seconds: float
    error: str | None


@dataclass(frozen=True)
class RunReport:
    """The result of a run; ``window`` is the partitions that it covers, None for a run without partitions.

    ``row_errors`` are the row errors that were published as data, or that were too many to be published;
    ``seconds`` are the times from start to end of the groups that started.
    """

    success: bool
    run_id: str
    window: str | None
    groups: tuple[GroupReport, ...]
    checks: tuple[CheckReport, ...]
    errors: tuple[Diagnostic, ...]
    row_errors: tuple[SiteDiagnostic, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def tells_why(self) -> bool:
        """Whether it holds the reason for which a run did not succeed."""
        return bool(self.errors) or self.exit_code not in (1, 2)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as ``run --format json`` prints it; a run without partitions has no ``window``.

        ``errors`` has an entry for each site of row errors, also of those that made no group fail.
        """
        report = asdict(self) | {"errors": [error.to_dict() for error in (*self.errors, *self.row_errors)]}
        hidden = ("row_errors", "seconds", *(["window"] if self.window is None else []))
        return {key: value for key, value in report.items() if key not in hidden}

    @property
    def exit_code(self) -> int:
        """0 success, 130 interrupted, 4 an assertion failed, 5 an audit failed, 2 some groups succeeded, else 1.

        10 where all errors are configuration.
        """
        if any(group.status == CANCELED for group in self.groups):
            return 130
        failed = {c.phase for c in self.checks if not c.passed and c.severity == "error"}
        if "assertion" in failed:
            return 4
        if "audit" in failed:
            return 5
        if self.success:
            return 0
        if any(group.status == SUCCESS for group in self.groups):
            return 2
        return RivetError.of(self.errors).exit_code if self.errors else 1


NOTHING_CHANGED = RunReport(True, "", None, (), (), ())
"""The report of ``run --changed`` where everything is as the base was made: there was no run."""


def read_report(
    events: Iterable[dg.DagsterEvent],
    run_id: str,
    success: bool,
    assembly: CompiledAssembly,
    window: str | None = None,
    seconds: Mapping[str, float] | None = None,
) -> RunReport:
    """Return the report of a run of ``assembly`` with these events, in order.

    Groups that did not start are skipped; groups that an interrupt ended are canceled. Groups whose rows the last step
    of the run should have published have the status of that step.
    """
    steps: dict[str, str] = {}
    last_step = SKIPPED
    missing = SKIPPED
    planned: set[str | None] = set()
    rows: dict[str, dict[str, Any]] = {}
    checks: list[CheckReport] = []
    errors: list[Diagnostic] = []
    row_errors: list[SiteDiagnostic] = []
    known = {joint.name for joint in assembly.joints}
    with_run = published_with_run(assembly)
    published: dict[str, bool] = {}
    groups_by_step = {step_name(assembly, group): group for group in assembly.execution_order}
    for event in events:
        step = groups_by_step.get(event.step_key or "", "")
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED:
            name = _joint_name(event.asset_key)
            planned.add(assembly.joint(name).group if name in known else None)  # None for an error table
        elif event.event_type == dg.DagsterEventType.STEP_SUCCESS:
            steps[step] = SUCCESS
        elif event.event_type == dg.DagsterEventType.STEP_FAILURE and was_not_started(event):
            steps[step] = SKIPPED
        elif event.event_type == dg.DagsterEventType.STEP_FAILURE:
            interrupted = was_canceled(event)
            steps[step] = CANCELED if interrupted else FAILED
            last_step = steps[step] if event.step_key == step_name(assembly, LAST_STEP) else last_step
            errors += [] if interrupted else _step_errors(event, step)
        elif event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
            name = _joint_name(event.asset_key)
            rows[name] = {k: v.value for k, v in event.materialization.metadata.items()}
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION and _is_of_last_step(event, assembly):
            evaluation = event.asset_check_evaluation_data
            published[_joint_name(evaluation.asset_key)] = evaluation.passed
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            checks.append(_check(event, assembly))
            row_errors += _row_errors(event)
        elif event.event_type == dg.DagsterEventType.RUN_CANCELED:
            missing = CANCELED
        elif event.event_type == dg.DagsterEventType.RUN_FAILURE:
            error = event.job_failure_data.error
            if _is_interrupt(error):
                missing = CANCELED
            elif error is not None and FAILED not in steps.values():
                errors += _defect(error, None)
    for name in with_run:
        if steps.get(name) == SUCCESS and not published.get(name, False):
            steps[name] = last_step
            rows.pop(name, None)
    order = [g for g in assembly.execution_order if g in planned and assembly.joint(g).type != SOURCE]
    groups = tuple(_group(name, steps.get(name, missing), rows.get(name, {})) for name in order)
    return RunReport(success, run_id, window, groups, tuple(checks), tuple(errors), tuple(row_errors), seconds or {})


def seconds_of_groups(entries: Iterable[dg.EventLogEntry], assembly: CompiledAssembly) -> dict[str, float]:
    """Return how long each group took that started and ended, all tries together."""
    groups = {step_name(assembly, group): group for group in assembly.execution_order}
    started: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for entry in entries:
        group = groups.get(entry.step_key or "")
        if group is None or entry.dagster_event is None:
            continue
        if entry.dagster_event.event_type == dg.DagsterEventType.STEP_START:
            started.setdefault(group, entry.timestamp)
        elif entry.dagster_event.event_type in _ENDS and group in started:
            seconds[group] = entry.timestamp - started[group]
    return seconds


def _group(name: str, status: str, metadata: Mapping[str, Any]) -> GroupReport:
    keys = {
        "inserted": "rivet/rows_inserted",
        "updated": "rivet/rows_updated",
        "deleted": "rivet/rows_deleted",
        "total": ROW_COUNT,
    }
    rows = {ours: metadata[theirs] for ours, theirs in keys.items() if theirs in metadata}
    return GroupReport(name, status, metadata.get("rivet/phases") or {}, rows)


def _is_of_last_step(event: dg.DagsterEvent, assembly: CompiledAssembly) -> bool:
    """Return whether a check is one of those whose step publishes the tables of the run."""
    evaluation = event.asset_check_evaluation_data
    joint = assembly.joint(_joint_name(evaluation.asset_key))
    return evaluation.check_name not in {check.name for check in joint.checks}


def _check(event: dg.DagsterEvent, assembly: CompiledAssembly) -> CheckReport:
    evaluation = event.asset_check_evaluation_data
    joint = assembly.joint(_joint_name(evaluation.asset_key))
    declared: CompiledCheck = next(check for check in joint.checks if check.name == evaluation.check_name)
    metadata: dict[str, Any] = {key: value.value for key, value in evaluation.metadata.items()}
    table = evaluation.metadata.get("rivet/samples")
    samples = [dict(record.data) for record in table.records] if isinstance(table, dg.TableMetadataValue) else []
    return CheckReport(
        joint=joint.name,
        check=declared.name,
        kind=declared.kind,
        phase=declared.phase,
        severity=declared.severity,
        passed=evaluation.passed,
        violations=metadata["rivet/violations"],
        samples=tuple(samples),
        sql=str(metadata["rivet/sql"]).removeprefix("```sql\n").removesuffix("\n```"),
        seconds=metadata["rivet/seconds"],
        error=metadata.get("rivet/error"),
    )


def _row_errors(event: dg.DagsterEvent) -> list[SiteDiagnostic]:
    metadata = event.asset_check_evaluation_data.metadata.get(DIAGNOSTICS)
    records: Any = metadata.value if metadata is not None else []
    return [SiteDiagnostic(**record) for record in records]


def _diagnostic(record: dict[str, Any]) -> Diagnostic:
    return SiteDiagnostic(**record) if "condition" in record else Diagnostic(**record)


def _step_errors(event: dg.DagsterEvent, group: str) -> list[Diagnostic]:
    """Return the diagnostics of a failed step; empty where its failed checks are the reason."""
    failure = event.step_failure_data
    metadata = failure.user_failure_data.metadata.get(DIAGNOSTICS) if failure.user_failure_data else None
    if metadata is not None:
        records: Any = metadata.value
        return [_diagnostic(record) for record in records]
    error = failure.error
    if error is None or error.cls_name == "DagsterAssetCheckFailedError":
        return []
    return _defect(error, group or None)


def _defect(error: Any, group: str | None) -> list[Diagnostic]:
    """Return the diagnostic of an unexpected error."""
    cause = error.cause or error
    return list(RivetError("RVT-599", f"{cause.cls_name}: {cause.message.strip()}", joint=group).diagnostics)


def was_canceled(failure: dg.DagsterEvent) -> bool:
    """Return whether a step ended by an interrupt of the run."""
    return _is_interrupt(failure.step_failure_data.error)


def _is_interrupt(error: Any) -> bool:
    return error is not None and error.cls_name in _INTERRUPTS


def _joint_name(key: dg.AssetKey | None) -> str:
    assert key is not None
    return key.path[-1]
