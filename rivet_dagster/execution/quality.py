"""The gate: a joint's checks on one relation, the row-level ones in one pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.results import CheckResult
from rivet_dagster.model.check import Check
from rivet_dagster.model.storage import Statistics
from rivet_dagster.sql.check_schema import differences
from rivet_dagster.sql.checks import (
    CheckQuery,
    alone,
    one_pass,
    shares_a_pass,
    shown,
    violating_rows,
    violations_of_pass,
)
from rivet_dagster.sql.proven import proven_violations


def proven(joint: str, checks: Sequence[Check], known: Statistics) -> tuple[CheckResult, ...] | None:
    """The verdicts where storage's statistics prove that all ``checks`` pass; None where rows must be read."""
    if any(proven_violations(check, known) != 0 for check in checks):
        return None
    return tuple(CheckResult(joint, check, True, 0, shown(joint, check).sql, 0.0) for check in checks)


def judge(
    joint: str,
    checks: Sequence[Check],
    session: EngineSession,
    known: Statistics | None,
    other: Callable[[str], Frame],
) -> tuple[CheckResult, ...]:
    """The verdict of each check, in order, on the relation registered in ``session`` under the joint's name.

    What ``known``, storage's statistics of the relation, proves is not scanned; ``other`` gives the rows of the other
    joints that checks read. None hides another: where the one pass fails, each of its checks runs by itself, and only
    those that cannot run have failed.
    """
    verdicts: dict[int, CheckResult] = {}
    together: list[tuple[int, Check]] = []
    for position, check in enumerate(checks):
        proven = proven_violations(check, known) if known is not None else None
        if proven is not None:
            verdicts[position] = _verdict(joint, check, proven, session, 0.0)
        elif check.kind == "schema":
            verdicts[position] = _schema(joint, check, session)
        elif shares_a_pass(check) and check.timeout is None:
            together.append((position, check))
        else:
            verdicts[position] = _alone(joint, check, session, other)
    verdicts |= _pass(joint, together, session, other)
    return tuple(verdicts[position] for position in range(len(checks)))


def _pass(
    joint: str, checks: Sequence[tuple[int, Check]], session: EngineSession, other: Callable[[str], Frame]
) -> dict[int, CheckResult]:
    if not checks:
        return {}
    started = time.perf_counter()
    query = one_pass(joint, [check for _, check in checks])
    try:
        row = session.rows(query.sql, query.parameters)[0]
    except RivetError:
        return {position: _alone(joint, check, session, other) for position, check in checks}
    seconds = time.perf_counter() - started
    return {
        position: _verdict(joint, check, violations_of_pass(check, number, row), session, seconds)
        for number, (position, check) in enumerate(checks)
    }


def _alone(joint: str, check: Check, session: EngineSession, other: Callable[[str], Frame]) -> CheckResult:
    started = time.perf_counter()
    query = one_pass(joint, [check]) if shares_a_pass(check) else alone(joint, check)
    try:
        for name in check.reads:
            session.register(name, other(name))
        row = session.rows(query.sql, query.parameters, check.timeout)[0]
    except (RivetError, TimeoutError) as error:
        reason = error.diagnostics[0].message if isinstance(error, RivetError) else str(error)
        seconds = time.perf_counter() - started
        return CheckResult(joint, check, False, None, shown(joint, check).sql, seconds, error=reason)
    violations = violations_of_pass(check, 0, row) if shares_a_pass(check) else int(row["violations"])
    return _verdict(joint, check, violations, session, time.perf_counter() - started)


def _schema(joint: str, check: Check, session: EngineSession) -> CheckResult:
    """Each column that is missing, of another type or not among those of the check is a violation; no row is read."""
    started = time.perf_counter()
    query = shown(joint, check).sql
    found = session.columns(session.query(query))
    differing = differences(check.types, found)
    seconds = time.perf_counter() - started
    return CheckResult(joint, check, not differing, len(differing), query, seconds, differing[: check.samples])


def _verdict(joint: str, check: Check, violations: int, session: EngineSession, seconds: float) -> CheckResult:
    started = time.perf_counter()
    samples: list[dict[str, object]] = []
    error = None
    query: CheckQuery | None = violating_rows(joint, check, check.samples) if violations and check.samples else None
    if query is not None:
        try:
            samples = session.rows(query.sql, query.parameters, check.timeout)
        except (RivetError, TimeoutError) as failure:
            error = f"its samples could not be read: {failure}"
    seconds += time.perf_counter() - started
    sql = shown(joint, check).sql
    return CheckResult(joint, check, violations == 0, violations, sql, seconds, tuple(samples), error)
