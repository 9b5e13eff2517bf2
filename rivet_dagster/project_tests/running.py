"""Running tests: all in one engine, in a session for each set of settings.

An engine that was chosen for them runs those that it computes as the project's own engine does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import Engine, EngineSession
from rivet_dagster.engines.registry import declared_class, open_engine
from rivet_dagster.errors import EngineUnusable, RivetError
from rivet_dagster.execution.quality.row_errors import errors_result, is_errors_check
from rivet_dagster.execution.quality.verdicts import judge
from rivet_dagster.execution.results import CheckResult, RowErrorCounts
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.project_tests.comparing import compare
from rivet_dagster.project_tests.computation import Computation, SmallQuery, check_interrupt, compute_batches, query_of
from rivet_dagster.project_tests.declared import ERROR, FAILED, PASSED, WARNED, ProjectTest
from rivet_dagster.project_tests.prepared import Prepared, prepare
from rivet_dagster.project_tests.results import NO_DIFFERENCE, Difference, TestResult
from rivet_dagster.project_tests.values import Table, zone_named


def offline_engine(assembly: CompiledAssembly, root: Path) -> Engine:
    """Return the engine of the project's tests: the default one, without what its catalogs need."""
    specs: dict[str, EngineSpec] = {spec.name: spec for spec in assembly.engines}
    spec = specs[assembly.default_engine or assembly.engines[0].name]
    few_rows = declared_class(spec).for_few_rows(spec)
    return open_engine(few_rows, root, os.environ, check_interrupt=check_interrupt)


class RunsTests(Protocol):
    """Runs tests that are prepared."""

    def run(self, tests: Sequence[Prepared], assembly: CompiledAssembly) -> list[TestResult]:
        """Return the result of each test, in order."""


def run_tests(
    tests: Sequence[ProjectTest], assembly: CompiledAssembly, root: Path, runner: RunsTests
) -> list[TestResult]:
    """Return the result of each test, in order. No engine starts where none of them can be run."""
    results: dict[int, TestResult] = {}
    prepared: dict[int, Prepared] = {}
    for number, test in enumerate(tests):
        try:
            prepared[number] = prepare(test, assembly, root)
        except RivetError as error:
            results[number] = error_result(test, error)
    if prepared:
        results |= dict(zip(prepared, runner.run(list(prepared.values()), assembly), strict=True))
    return [results[number] for number in range(len(tests))]


class Runner:
    """Runs tests on one engine; its sessions stay open until it is closed."""

    def __init__(self, engine: Engine, root: Path) -> None:
        self._engine = engine
        self._root = root
        self._sessions: dict[tuple[tuple[str, str], ...], EngineSession] = {}
        self._zones: dict[int, tzinfo] = {}

    def run(self, tests: Sequence[Prepared], assembly: CompiledAssembly) -> list[TestResult]:
        """Return the result of each test, in order. Raises what no test is to blame for: RVT-1xx, RVT-502."""
        results: dict[int, TestResult] = {}
        groups: dict[Any, list[int]] = {}
        for number, prepared in enumerate(tests):
            groups.setdefault((prepared.settings, prepared.separates), []).append(number)
        for (settings, separates), numbers in groups.items():
            session = self._session(settings)
            computations = {n: Computation(tests[n], assembly, self._root, session) for n in numbers}
            with session.separating_errors() if separates else nullcontext():
                results |= self._run(computations)
        return [results[n] for n in range(len(tests))]

    def _run(self, computations: Mapping[int, Computation]) -> dict[int, TestResult]:
        """Return the results of tests of one session, by the keys of ``computations``."""
        one = [n for n, c in computations.items() if c.prepared.is_one_query and c.prepared.test.error is None]
        # Those of one target have often the same shape, and a batch of few shapes is quicker.
        together = {n: computations[n] for n in sorted(one, key=lambda n: computations[n].prepared.target)}
        results = {}
        if together:
            session = next(iter(together.values())).session
            started = time.perf_counter()
            computed = compute_batches(session, [self._small_query(computation) for computation in together.values()])
            share = (time.perf_counter() - started) / len(together)
            for (n, computation), rows in zip(together.items(), computed, strict=True):
                results[n] = self._result(computation, rows, share)
        for n, computation in computations.items():
            if n not in results:
                results[n] = self._alone(computation)
        return results

    def close(self) -> None:
        """End the sessions."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def _session(self, settings: tuple[tuple[str, str], ...]) -> EngineSession:
        if settings not in self._sessions:
            session = self._engine.session()
            session.expect_few_rows()
            if settings:
                session.configure(dict(settings))
            self._sessions[settings] = session
        return self._sessions[settings]

    def _small_query(self, computation: Computation) -> SmallQuery:
        prepared = computation.prepared
        shape = (prepared.target, repr(sorted(prepared.texts.items())), repr(sorted(prepared.types.items())))
        return SmallQuery(shape, query_of(prepared, prepared.target, {}).sql, computation.table)

    def _alone(self, computation: Computation) -> TestResult:
        started = time.perf_counter()
        with computation.session.views():
            try:
                rows: Table | RivetError = computation.table()
            except RivetError as error:
                rows = error
            return self._result(computation, rows, time.perf_counter() - started)

    def _result(self, computation: Computation, rows: Table | RivetError, seconds: float) -> TestResult:
        started = time.perf_counter()
        if isinstance(rows, EngineUnusable) or (isinstance(rows, RivetError) and rows.is_configuration):
            raise rows
        try:
            result = self._judged(computation, rows)
        except RivetError as error:
            result = error_result(computation.prepared.test, error)
        return replace(result, seconds=seconds + time.perf_counter() - started)

    def _judged(self, computation: Computation, rows: Table | RivetError) -> TestResult:
        prepared = computation.prepared
        test = prepared.test
        if test.error is not None:
            return _expected_error(test, test.error, rows)
        if isinstance(rows, RivetError):
            return error_result(test, rows)
        difference = Difference(rows=len(rows.rows))
        messages: list[str] = []
        if prepared.expected is not None:
            difference = compare(test, prepared.expected, rows, partial(self._zone, computation.session))
            messages += _sentences(test, difference)
        if prepared.checks:
            messages += check_mismatches(computation, len(rows.rows))
        return _result(test, FAILED if messages else PASSED, "\n".join(messages) or None, difference)

    def _zone(self, session: EngineSession) -> tzinfo:
        if id(session) not in self._zones:
            (row,) = session.rows("SELECT current_timezone() AS zone")
            self._zones[id(session)] = zone_named(row["zone"])
        return self._zones[id(session)]


def error_result(test: ProjectTest, error: RivetError) -> TestResult:
    """Return the result of a test that cannot be judged."""
    return _result(test, ERROR, "\n".join(map(str, error.diagnostics)))


def _result(test: ProjectTest, status: str, message: str | None, difference: Difference = NO_DIFFERENCE) -> TestResult:
    return TestResult(
        test.name, test.location.file, test.location.line, test.target, status, difference=difference, message=message
    )


def _expected_error(test: ProjectTest, expected: str, rows: Table | RivetError) -> TestResult:
    if not isinstance(rows, RivetError):
        count = f"{len(rows.rows)} row{'' if len(rows.rows) == 1 else 's'}"
        return _result(test, FAILED, f"the error {expected} was expected, and '{test.target}' has {count}")
    if any(expected == d.code or expected in d.message for d in rows.diagnostics):
        return _result(test, PASSED, None)
    return _result(test, FAILED, f"the error {expected} was expected, and another one was raised: {rows}")


def _sentences(test: ProjectTest, difference: Difference) -> list[str]:
    if difference.schema:
        return [f"the columns of '{test.target}' are not those expected"]
    if difference.order is not None:
        return [f"'{test.target}' has the expected rows in another order, from row {difference.order} on"]
    if difference.empty:
        return []
    missing, unexpected = len(difference.missing), len(difference.unexpected)
    same = difference.rows - unexpected
    return [f"rows of '{test.target}': {missing} missing, {unexpected} unexpected, {same} as expected"]


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


class ChosenRunner:
    """Runs tests on the engine of ``chosen``; on that of ``other``, which starts with the first, what that refuses.

    ``refused`` are the joints that the chosen engine would compute otherwise.
    """

    def __init__(self, chosen: Runner, other: Callable[[], Runner], refused: frozenset[str]) -> None:
        self._chosen = chosen
        self._make_other = other
        self._other: Runner | None = None
        self.refused = refused

    def run(self, tests: Sequence[Prepared], assembly: CompiledAssembly) -> list[TestResult]:
        """Return the result of each test, in order. Raises what ``Runner.run`` does."""
        there = [number for number, test in enumerate(tests) if self._is_computed(test)]
        results = dict(zip(there, self._chosen.run([tests[n] for n in there], assembly), strict=True))
        others = [number for number in range(len(tests)) if number not in results]
        if others:
            if self._other is None:
                self._other = self._make_other()
            results |= dict(zip(others, self._other.run([tests[n] for n in others], assembly), strict=True))
        return [results[number] for number in range(len(tests))]

    def close(self) -> None:
        """End the sessions."""
        self._chosen.close()
        if self._other is not None:
            self._other.close()

    def _is_computed(self, test: Prepared) -> bool:
        """Return whether the chosen engine computes what the test compares; it separates no errors from rows."""
        return not (test.separates or test.errors is not None or self.refused & {*test.computed})
