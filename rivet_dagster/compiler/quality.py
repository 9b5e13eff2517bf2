"""Compilation of the joints' checks: their problems, the joints that they read, and their queries.

The check of a quarantining group's row errors, which no project declares.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache as cached
from typing import Any

from rivet_dagster.cache import CompileCache
from rivet_dagster.checks.contract import CheckKind, Problem, Reading, kind_of
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.compiler.plan_json import read
from rivet_dagster.compiler.references import broken_names
from rivet_dagster.entry_points import is_own_kind
from rivet_dagster.errors import REMEDIATIONS, Diagnostic
from rivet_dagster.model.check import AUDIT, ERROR, WARN, Check, distinct_names
from rivet_dagster.model.check_plan import ByErrors, CheckQueries, CompiledCheck
from rivet_dagster.model.joint import SINK, Joint
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project
from rivet_dagster.model.row_errors import CHECK, ErrorTable
from rivet_dagster.model.target import Target
from rivet_dagster.near_names import NearNames
from rivet_dagster.sql import trees
from rivet_dagster.sql.error import UnreadableSql
from rivet_dagster.sql.unique_keys import unique_key

CompiledChecks = Mapping[str, tuple[CompiledCheck, ...]]
"""The checks of each joint, in order."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The result of compiling one check; without queries where a problem is certain."""

    reading: Reading
    queries: CheckQueries | None


def compile_checks(project: Project, diagnostics: Diagnostics, cache: CompileCache) -> tuple[Project, CompiledChecks]:
    """Return ``project`` with the joints that its checks read filled in, and the compiled checks of each joint.

    Reports RVT-209 for SQL that is no query and for unknown types, RVT-302 and RVT-307 for joints that cannot be read.
    SQL that only this package's parser cannot read is a warning: the engine may be able to.
    """
    joints = {joint.name: joint for joint in project.joints}
    compiler = _Compiler(joints, NearNames(joints), broken_names(project), diagnostics, cache)
    compiled: dict[str, tuple[CompiledCheck, ...]] = {}
    resolved = []
    for joint in project.joints:
        if not joint.quality:
            compiled[joint.name] = ()
            resolved.append(joint)
            continue
        shows_values = shows_row_values(joint, project.profile)
        checks = [compiler.check(joint.name, check, n, shows_values) for n, check in enumerate(joint.quality)]
        compiled[joint.name] = tuple(plan for _, plan in checks if plan is not None)
        reads_others = any(check.reads for check, _ in checks)
        resolved.append(replace(joint, quality=tuple(check for check, _ in checks)) if reads_others else joint)
    return replace(project, joints=tuple(resolved)), compiled


def shows_row_values(joint: Joint, profile: Profile) -> bool:
    """Return whether values of the joint's rows may be shown: as it declares, else as the profile does."""
    return profile.row_values if joint.row_values is None else joint.row_values


class _Compiler:
    def __init__(
        self,
        joints: Mapping[str, Joint],
        near: NearNames,
        broken: Collection[str],
        diagnostics: Diagnostics,
        cache: CompileCache,
    ) -> None:
        self._joints = joints
        self._near = near
        self._broken = broken
        self._diagnostics = diagnostics
        self._cache = cache

    def check(self, joint: str, check: Check, number: int, shows_values: bool) -> tuple[Check, CompiledCheck | None]:
        """Return the check with its reads filled in, and the compiled check, None where it has an error."""
        kind = kind_of(check)
        samples = check.samples if shows_values or not kind.samples_are_rows else 0
        compiled = self._compiled(joint, kind, check, number, samples)
        for problem in compiled.reading.problems:
            diagnostic = _of_problem(joint, check, problem)
            (self._diagnostics.errors if problem.certain else self._diagnostics.warnings).append(diagnostic)
        others = self._others(joint, check, compiled.reading)
        check = check if others == check.reads else replace(check, reads=others)
        if compiled.queries is None:
            return check, None
        fields = vars(check) | {"samples": samples, "options": _as_json(check.options), "queries": compiled.queries}
        return check, CompiledCheck(**fields)

    def _compiled(self, joint: str, kind: CheckKind, check: Check, number: int, samples: int) -> _Compiled:
        """Compile the check, or read it from the cache: only built-in kinds without problems are cached."""
        key = json.dumps((joint, check.kind, number, samples, check.options))
        is_own = is_own_kind(check.kind)
        cached = self._cache.get("check", key) if is_own else None
        if cached is not None:
            compiled: _Compiled = read(_Compiled, cached)
            return compiled
        compiled = _compile(joint, kind, number, samples)
        if is_own and not compiled.reading.problems:
            self._cache.put("check", key, _as_data(compiled))
        return compiled

    def _others(self, joint: str, check: Check, reading: Reading) -> tuple[str, ...]:
        """Return the other joints that a check reads."""
        if not reading.tables and not reading.joints:
            return ()
        for option, name in reading.joints.items():
            if name not in self._joints and name not in self._broken:
                message = f"`{option}` names '{name}', which is no joint{self._near.hint(name)}"
                self._diagnostics.errors.append(_diagnostic("RVT-302", joint, check, message))
        named = {*reading.tables, *reading.joints.values()} & self._joints.keys()
        others = sorted(named - {joint})
        sinks = [name for name in others if self._joints[name].type == SINK]
        for name in sinks:
            message = f"it reads the sink '{name}', which has no downstream"
            self._diagnostics.errors.append(_diagnostic("RVT-307", joint, check, message))
        return () if sinks else tuple(others)


def _compile(joint: str, kind: CheckKind, number: int, samples: int) -> _Compiled:
    reading = kind.reading(joint)
    if any(problem.certain for problem in reading.problems):
        return _Compiled(reading, None)
    sampled = kind.samples(joint, samples) if samples else None
    queries = CheckQueries(
        counting=kind.counting(joint, number),
        shown=kind.shown(joint),
        samples=sampled,
        proof=kind.proof(),
        constraint=kind.constraint(),
    )
    return _Compiled(reading, queries)


def _as_data(value: Any) -> Any:
    """Return a value with each dataclass as a dict: like ``dataclasses.asdict``, but parts are shared, not copied."""
    if isinstance(value, str) or value is None:
        return value
    if is_dataclass(value):
        kind: Any = type(value)
        return {name: _as_data(getattr(value, name)) for name in _field_names(kind)}
    if isinstance(value, Mapping):
        return {key: _as_data(item) for key, item in value.items()}
    return tuple([_as_data(item) for item in value]) if isinstance(value, tuple) else value


@cached
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple([item.name for item in fields(kind)])


def _as_json(value: Any) -> Any:
    """Return a value as it is after a round trip through the plan's JSON."""
    if isinstance(value, Mapping):
        return {key: _as_json(item) for key, item in value.items()}
    return [_as_json(item) for item in value] if isinstance(value, tuple) else value


def _of_problem(joint: str, check: Check, problem: Problem) -> Diagnostic:
    line = check.line
    if check.sql_line is not None and problem.line is not None:
        line = check.sql_line + problem.line - 1
    return _diagnostic("RVT-209", joint, check, problem.message, line, problem.remediation)


def _diagnostic(
    code: str, joint: str, check: Check, message: str, line: int | None = None, remediation: str | None = None
) -> Diagnostic:
    check_line = check.line if line is None else line
    return Diagnostic(code, f"check {check.name}: {message}", joint, check.file, check_line, remediation)


def with_keys_of_queries(
    checks: CompiledChecks, groups: Iterable[FusedGroup], graph: Graph, cache: CompileCache
) -> CompiledChecks:
    """Return the checks of each joint; those of unique keys are marked where the group's own query groups by the key.

    The query must be the same in all runs, and leave out no rows that cannot be evaluated.
    """
    marked = dict(checks)
    for group in groups:
        if any(map(_is_of_key, checks[group.exit])):
            key = _key_of(group, graph, cache)
            if key is not None:
                marked[group.exit] = tuple(
                    replace(check, holds_by_query=True) if _is_of_key(check) and key.issubset(check.columns) else check
                    for check in checks[group.exit]
                )
    return marked


def _is_of_key(check: CompiledCheck) -> bool:
    constraint = check.queries.constraint
    return constraint is not None and constraint.kind == "unique"


def _key_of(group: FusedGroup, graph: Graph, cache: CompileCache) -> frozenset[str] | None:
    """Return columns by which the rows of the group's exit are unique; None if that is not certain."""
    query, target = group.query, group.target
    if query is None or len(query.results) != 1 or (target is not None and target.errors is not None):
        return None
    if any(cte.incremental is not None or cte.dialect is not None for cte in query.ctes):
        return None
    text = query.text()
    known = cache.get("unique_key", text)
    if known is None:
        keys: dict[str, frozenset[str] | None] = {}
        with suppress(UnreadableSql):  # the engine may be able to read it
            for cte in query.ctes:
                tree = graph.queries[cte.joint].tree
                keys[cte.joint] = None if tree is None else unique_key(tree, keys)
        key = keys.get(query.results[0])
        known = {"key": None if key is None else sorted(key)}
        cache.put("unique_key", text, known)
    return None if known["key"] is None else frozenset(known["key"])


SAMPLES = 10
"""The number of errors that a result shows."""


def with_errors_checks(
    checks: CompiledChecks, groups: Iterable[FusedGroup], graph: Graph, profile: Profile
) -> CompiledChecks:
    """Return the checks of each joint, with the check `evaluation_errors` at the end where errors are quarantined.

    A declared check of that name is renamed, as the second of two declared ones would be. The check has no samples if a
    joint of the group must not show values of rows.
    """
    added = dict(checks)
    for group in groups:
        target, name = group.target, group.exit
        if target is not None and target.errors is not None:
            shows = all(shows_row_values(graph.joints[member], profile) for member in group.joints)
            _, *names = distinct_names([CHECK, *(check.name for check in checks[name])])
            others = (replace(check, name=given) for check, given in zip(checks[name], names, strict=True))
            added[name] = (*others, _check(graph.joints[name], target.errors, target, shows))
    return added


def _check(joint: Joint, errors: ErrorTable, target: Target, shows_values: bool) -> CompiledCheck:
    limit = f"; more than {errors.max_errors} of them fail it" if errors.max_errors is not None else ""
    age = f"; those found more than {errors.max_age} days ago are removed" if errors.max_age is not None else ""
    key = "on_error.max_errors" if errors.max_errors is not None else "on_error"
    return CompiledCheck(
        kind=CHECK,
        name=CHECK,
        phase=AUDIT,
        severity=WARN if errors.max_errors is None else ERROR,
        samples=SAMPLES if shows_values else 0,
        queries=CheckQueries(
            counting=ByErrors(max_errors=errors.max_errors),
            shown=trees.text(trees.select(of=trees.relation(errors.table))),
        ),
        description=f"The rows that could not be evaluated, published as {target.catalog}.{errors.table}{limit}{age}.",
        remediation=REMEDIATIONS["RVT-520"].partition(",")[0] + ".",
        file=joint.origin.file,
        line=joint.origin.line_of(key),
    )
