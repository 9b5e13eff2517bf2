"""The verdicts of a target's checks on the rows that a test computes."""

from __future__ import annotations

from collections.abc import Mapping

from rivet_dagster.execution.quality.row_errors import errors_result, is_errors_check
from rivet_dagster.execution.quality.verdicts import judge
from rivet_dagster.execution.results import CheckResult, RowErrorCounts
from rivet_dagster.project_tests.computation import Computation
from rivet_dagster.project_tests.declared import FAILED, PASSED, WARNED


def check_mismatches(computation: Computation, rows: int) -> list[str]:
    """Return a sentence for each check whose verdict is not the one that the test expects.

    Assertions and audits alike judge the computed rows, ``rows`` of them.
    """
    prepared, session = computation.prepared, computation.session
    of_rows = [check for check in prepared.checks if not is_errors_check(check)]
    results: list[CheckResult] = []
    for check in prepared.checks:
        if is_errors_check(check):
            joint = computation.assembly.joint(prepared.target)
            count = computation.error_count()
            results.append(errors_result(joint, check, RowErrorCounts("", count, count), rows))
    with session.views():
        frame = computation.frame(prepared.target)
        session.register(prepared.target, frame)
        results += judge(prepared.target, of_rows, session, None, computation.frame)
    return [sentence for result in results if (sentence := _mismatch(result, prepared.test.checks)) is not None]


def _mismatch(result: CheckResult, expected: Mapping[str, str]) -> str | None:
    verdict = PASSED if result.passed else FAILED if result.check.blocking else WARNED
    wanted = expected[result.check.name]
    if verdict == wanted:
        return None
    why = f": {result.error}" if result.error else f", violations: {result.violations}" if result.violations else ""
    return f"the check '{result.check.name}' {verdict}, and was expected to have {wanted}{why}"
