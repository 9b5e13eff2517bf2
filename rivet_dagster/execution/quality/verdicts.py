"""The evaluation of a joint's checks on one relation, with all aggregates in one query. Nothing is parsed here."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import EngineUnusable, RivetError
from rivet_dagster.execution.results import CheckResult
from rivet_dagster.model.check_plan import BoundQuery, ByColumns, ByQuery, CompiledCheck, InOnePass, one_pass
from rivet_dagster.model.proof import proven_violations
from rivet_dagster.model.storage import Statistics
from rivet_dagster.sql.write_strategies.alignment import shortened, text_of

LONGEST = 10_000
"""The most characters of a text in a sample, or bytes of a binary: far more than the 200 that are shown.

A secret of which a part would be shown is in it as a whole, and is recognized.
"""

Count = Callable[[Sequence[CompiledCheck]], Mapping[str, int]]
"""A function that returns the violations of checks, by name, without those that it does not count."""

_SAMPLES = "rivet_samples"

_MOST_FAILED = 20
"""The most queries of several checks that may fail before the rest of the checks run by themselves."""


def proven(
    joint: str, checks: Sequence[CompiledCheck], known: Statistics, passed: Collection[str] = ()
) -> tuple[CheckResult, ...] | None:
    """Return the results if all ``checks`` pass, those named in ``passed`` and those that storage's statistics prove.

    None if rows must be read.
    """
    if any(check.name not in passed and proven_violations(check.queries.proof, known) != 0 for check in checks):
        return None
    return tuple(_result(joint, check, 0) for check in checks)


def judge(
    joint: str,
    checks: Sequence[CompiledCheck],
    session: EngineSession,
    known: Statistics | None,
    other: Callable[[str], Frame],
    count: Count | None = None,
) -> tuple[CheckResult, ...]:
    """Return the result of each check, in order, on the relation registered in ``session`` under the joint's name.

    Checks that ``known``, storage's statistics of the relation, decides are not run, nor those whose violations storage
    has counted by ``count``; ``other`` gives the rows of other joints that checks read. No check hides another: if the
    query that they share fails, those that cannot run are left out of it, and count as failed.
    """
    gate = _Gate(joint, session, other)
    proofs = {c.name: proven_violations(c.queries.proof, known) if known is not None else None for c in checks}
    undecided = [c for c in checks if proofs[c.name] is None and c.timeout is None]
    clock = _Clock()
    counted = count(undecided) if count is not None and undecided else {}
    seconds = clock.seconds
    proofs |= counted
    shared = [c for c in checks if proofs[c.name] is None and c.timeout is None and _aggregate(c) is not None]
    passed = gate.in_one_pass(shared)

    def verdict(check: CompiledCheck) -> CheckResult:
        violations = proofs[check.name]
        if violations is None:
            return gate.by_itself(check)
        return gate.with_samples(check, violations, seconds if check.name in counted else 0.0)

    return tuple(passed.get(check.name) or verdict(check) for check in checks)


class _Gate:
    """The evaluation of the checks of one joint in a session."""

    def __init__(self, joint: str, session: EngineSession, other: Callable[[str], Frame]) -> None:
        self._joint = joint
        self._session = session
        self._other = other

    def in_one_pass(self, checks: Sequence[CompiledCheck]) -> dict[str, CheckResult]:
        """Return the results of checks that share one query, by name, without those that cannot run.

        Those that cannot be analyzed are found without reading a row. Where others fail on rows, halves of the checks
        share a query, and so on: a few scans for each of them, not one for each check. An engine that has died is not
        asked again.
        """
        try:
            return self._in_few_passes(checks)
        except EngineUnusable:
            return {}

    def _in_few_passes(self, checks: Sequence[CompiledCheck]) -> dict[str, CheckResult]:
        verdicts = self._pass(checks)
        if verdicts is not None:
            return verdicts
        analyzed = [check for part in _working(checks, self._is_analyzed) for check in part]
        verdicts = self._pass(analyzed) if len(analyzed) < len(checks) else None
        if verdicts is not None:
            return verdicts
        results: dict[str, CheckResult] = {}
        failed = 0

        def run(part: Sequence[CompiledCheck]) -> bool:
            nonlocal failed
            # One alone runs by itself, as all do where most of them fail, as of an unreadable file.
            if len(part) < 2 or failed == _MOST_FAILED:
                return False
            of_part = self._pass(part)
            failed += of_part is None
            results.update(of_part or {})
            return of_part is not None

        for half in _halves(analyzed):
            _working(half, run)
        return results

    def _pass(self, checks: Sequence[CompiledCheck]) -> dict[str, CheckResult] | None:
        """Return the results of checks by one query, None if it fails."""
        if not checks:
            return {}
        clock = _Clock()
        query = self._shared(checks)
        try:
            row = self._session.rows(query.sql, query.parameters)[0]
        except EngineUnusable:
            raise
        except RivetError:
            return None
        seconds = clock.seconds
        counts = {check.name: int(row[aggregate.name]) for check, aggregate in _aggregates(checks)}
        return {check.name: self.with_samples(check, counts[check.name], seconds) for check in checks}

    def _is_analyzed(self, checks: Sequence[CompiledCheck]) -> bool:
        """Return whether the engine can analyze the query that ``checks`` share; it is not run."""
        query = self._shared(checks)
        try:
            self._session.columns(self._session.query(query.sql, query.parameters))
        except EngineUnusable:
            raise
        except RivetError:
            return False
        return True

    def _shared(self, checks: Sequence[CompiledCheck]) -> BoundQuery:
        return one_pass(f"`{self._joint}`", [aggregate for _, aggregate in _aggregates(checks)])

    def by_itself(self, check: CompiledCheck) -> CheckResult:
        """Return the result of a check that has a query of its own."""
        clock = _Clock()
        try:
            for name in check.reads:
                self._session.register(name, self._other(name))
            match check.queries.counting:
                case ByColumns(expected=expected):
                    actual = self._session.columns(self._session.query(check.queries.shown))
                    differing = columns_that_differ(expected, actual)
                    result = _result(self._joint, check, len(differing), clock.seconds)
                    return replace(result, samples=differing[: check.samples])
                case InOnePass() as aggregate:
                    query, answer = one_pass(f"`{self._joint}`", [aggregate]), aggregate.name
                case ByQuery(query=query):
                    answer = "violations"
            row = self._session.rows(query.sql, query.parameters, check.timeout)[0]
        except (RivetError, TimeoutError) as error:
            reason = error.diagnostics[0].message if isinstance(error, RivetError) else str(error)
            return replace(_result(self._joint, check, None, clock.seconds), error=reason)
        return self.with_samples(check, int(row[answer]), clock.seconds)

    def with_samples(self, check: CompiledCheck, violations: int, seconds: float = 0.0) -> CheckResult:
        """Return the result, with samples of the violating rows if there are any."""
        result = _result(self._joint, check, violations, seconds)
        query = check.queries.samples
        if not violations or query is None:
            return result
        clock = _Clock()
        try:
            samples = self._samples(query, check.timeout)
        except (RivetError, TimeoutError) as failure:
            error = f"its samples could not be read: {failure}"
            return replace(result, error=error, seconds=seconds + clock.seconds)
        return replace(result, samples=tuple(samples), seconds=seconds + clock.seconds)

    def _samples(self, query: BoundQuery, timeout: float | None) -> Sequence[Mapping[str, Any]]:
        """Return sample rows, whose long values the engine cuts: a row may be longer than this process has room for."""
        frame = self._session.query(query.sql, query.parameters)
        columns = self._session.columns(frame)
        shorter = shortened(columns, _SAMPLES, LONGEST)
        if shorter is None:
            return self._session.rows(query.sql, query.parameters, timeout)
        with self._session.views():
            self._session.register(_SAMPLES, frame)
            rows = self._session.rows(shorter, None, timeout)
        texts = {text_of(position): column for position, (column, _) in enumerate(columns)}
        return [_with_texts(row, texts) for row in rows]


def _with_texts(row: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of ``shortened`` with the beginnings of long texts in the place of their columns."""
    long = {texts[name]: value for name, value in row.items() if name in texts and value is not None}
    return {name: long.get(name, value) for name, value in row.items() if name not in texts}


class _Clock:
    """The seconds since it was created."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started


def _working(
    checks: Sequence[CompiledCheck], works: Callable[[Sequence[CompiledCheck]], bool]
) -> list[Sequence[CompiledCheck]]:
    """Return the largest parts of ``checks``, by repeated halving, for which ``works`` is true."""
    if not checks:
        return []
    if works(checks):
        return [checks]
    return [part for half in _halves(checks) for part in _working(half, works)]


def _halves(checks: Sequence[CompiledCheck]) -> tuple[Sequence[CompiledCheck], ...]:
    """Return two halves of several checks; none of a single one."""
    middle = len(checks) // 2
    return (checks[:middle], checks[middle:]) if middle else ()


def _aggregates(checks: Iterable[CompiledCheck]) -> list[tuple[CompiledCheck, InOnePass]]:
    return [(check, aggregate) for check in checks if (aggregate := _aggregate(check)) is not None]


def _aggregate(check: CompiledCheck) -> InOnePass | None:
    return check.queries.counting if isinstance(check.queries.counting, InOnePass) else None


def _result(joint: str, check: CompiledCheck, violations: int | None, seconds: float = 0.0) -> CheckResult:
    return CheckResult(joint, check, violations == 0, violations, check.queries.shown, seconds)


def columns_that_differ(
    expected: Iterable[tuple[str, str]], present: Iterable[tuple[str, str]]
) -> tuple[Mapping[str, Any], ...]:
    """Return one row for each column that differs; letter case and order make no difference.

    >>> columns_that_differ([("id", "bigint"), ("net", "double")], [("ID", "bigint"), ("net", "string"), ("x", "int")])
    ({'column': 'net', 'expected': 'double', 'found': 'string'}, {'column': 'x', 'expected': None, 'found': 'int'})
    """
    wanted = {name.lower(): (name, type_) for name, type_ in expected}
    actual = {name.lower(): (name, type_.lower()) for name, type_ in present}
    rows = []
    for key in (*wanted, *(key for key in actual if key not in wanted)):
        name = wanted.get(key, actual.get(key, ("", "")))[0]
        types = {"expected": wanted.get(key, (name, None))[1], "found": actual.get(key, (name, None))[1]}
        if types["expected"] != types["found"]:
            rows.append({"column": name, **types})
    return tuple(rows)
