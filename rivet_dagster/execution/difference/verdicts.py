"""The checks of a joint whose verdict on one version of its table differs from that on another.

Both versions are judged now, by the checks of the plan: neither storage nor the event log of one Dagster instance knows
the verdicts of both, and the older version may never have been judged by a check that is new.
"""

from __future__ import annotations

from rivet_dagster.execution.difference.results import VerdictChange
from rivet_dagster.execution.quality.judging import check_published
from rivet_dagster.execution.results import CheckResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.storage import Published

PASSED, WARNED, FAILED = "passed", "warned", "failed"


def changed_verdicts(
    runtime: Runtime, base: Runtime, joint: str, before: Published | None, after: Published, same_rows: bool
) -> tuple[VerdictChange, ...]:
    """Return the checks of ``joint`` whose verdict on ``after`` differs from that on ``before``.

    ``runtime`` reads both versions, and the tables of other joints as the environment sees them; ``base`` reads those
    as the base has them. With ``same_rows`` only checks that also read other joints are judged. A check of a single
    batch is left out where the batch cannot be told from the other rows of the table. Without ``before`` all verdicts
    that are not ``passed`` are returned. Raises RVT-401.
    """
    checks = runtime.assembly.joint(joint).checks
    wanted = {check.name for check in checks if check.reads or not same_rows}
    if not wanted:
        return ()
    now = {result.check.name: result for result in check_published(runtime, joint, wanted, after)}
    old: dict[str, CheckResult] = {}
    if before is not None:
        old = {result.check.name: result for result in check_published(runtime, joint, wanted, before, base)}
    changes = []
    for name, result in now.items():
        earlier = old.get(name)
        was = None if earlier is None else verdict(earlier)
        if verdict(result) != (was or PASSED):
            changes.append(_change(result, earlier))
    return tuple(changes)


def verdict(result: CheckResult) -> str:
    """Return ``passed``, ``warned`` or ``failed``."""
    if result.passed:
        return PASSED
    return FAILED if result.check.blocking else WARNED


def _change(after: CheckResult, before: CheckResult | None) -> VerdictChange:
    check = after.check
    return VerdictChange(
        check.name,
        check.kind,
        check.phase,
        check.severity,
        None if before is None else verdict(before),
        verdict(after),
        None if before is None else before.violations,
        after.violations,
    )
