"""A test and the plan together: what is given, what is computed, and from which text.

For that the test binds what a run does: its start and partitions, and for ``incremental`` the watermark and the target.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from rivet_dagster.compiler.group_query import Cte, FusedQuery, GroupQuery
from rivet_dagster.compiler.joints import FunctionJoint, SinkJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import Typed
from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.execution.runtime import values_of_variables
from rivet_dagster.execution.showing import differing_plan
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.partitions import PARTITION_END, PARTITION_KEYS, PARTITION_START, Partitions
from rivet_dagster.model.schema import SparkType, parse_type
from rivet_dagster.model.watermark import is_watermark_type
from rivet_dagster.model.write_plan import History, Upsert
from rivet_dagster.project_tests.declared import GRAPH, GivenRows, ProjectTest
from rivet_dagster.project_tests.fixtures import fixture, with_file_rows
from rivet_dagster.project_tests.values import Table, infer_type, read_value
from rivet_dagster.sql.target import RUN_STARTED_AT, target_view, watermark_of


@dataclass(frozen=True)
class Prepared:
    """What a test computes: ``fixtures`` by the name of their relation, and the joints between these and the target.

    ``computed`` are these joints in topological order, the target last; ``texts`` are the queries of the SQL joints
    among them, and ``reads`` the relations that each of them reads. ``parameters`` are values that the texts bind.
    ``expected`` are the expected rows, with those of their file; ``checks`` the checks that the test names.
    ``written`` are those before the target whose tables have other rows than they compute, with how they are written.
    ``errors`` is the query of the rows that cannot be evaluated, None where there can be none, or where they fail the
    test. ``separates`` is whether rows that cannot be evaluated are left out; ``settings`` are those of the session.
    """

    test: ProjectTest
    target: str
    fixtures: Mapping[str, Table]
    computed: tuple[str, ...]
    texts: Mapping[str, str]
    reads: Mapping[str, tuple[str, ...]]
    functions: Mapping[str, FunctionJoint] = field(default_factory=dict)
    unions: frozenset[str] = frozenset()
    written: Mapping[str, Upsert | History] = field(default_factory=dict)
    parameters: Mapping[str, Typed | Any] = field(default_factory=dict)
    expected: GivenRows | None = None
    checks: tuple[CompiledCheck, ...] = ()
    errors: FusedQuery | None = None
    separates: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def is_one_query(self) -> bool:
        """Whether its rows are those of one query that binds no values."""
        union = self.target in self.unions and len(self.reads[self.target]) > 1
        return not self.functions and not self.written and not self.parameters and not union

    @property
    def types(self) -> Mapping[str, tuple[tuple[str, SparkType], ...]]:
        """The columns of its fixtures."""
        return {name: rows.columns for name, rows in self.fixtures.items()}


def prepare(test: ProjectTest, assembly: CompiledAssembly, root: Path) -> Prepared:
    """Return what the test computes by the plan of the project in ``root``.

    Raises the errors of the test, RVT-306 for an unknown joint, RVT-215 for a missing or an unknown input, and what
    ``fixture`` does.
    """
    if test.errors:
        raise RivetError.of(test.errors)
    return _Preparation(test, assembly, root).prepared()


class _Preparation:
    def __init__(self, test: ProjectTest, assembly: CompiledAssembly, root: Path) -> None:
        self._test = test
        self._assembly = assembly
        self._root = root
        self._known = {joint.name: joint for joint in assembly.joints}
        self._errors: list[Diagnostic] = []

    def prepared(self) -> Prepared:
        test, target = self._test, str(self._test.target)
        self._check_names(target)
        self._raise()
        computed = self._computed(target)
        checks = self._checks(target)
        self._check_inputs(target, computed, checks)
        self._raise()
        texts = [self._cte(name) for name in computed if self._known[name].type == "sql"]
        for cte in texts:
            if cte.dialect is not None:
                message = f"'{cte.joint}' is written in the SQL of {cte.dialect}, and tests compute Spark's SQL"
                self._wrong("target", "RVT-329", message, "Give its rows in the test, or write it in Spark's SQL.")
        later = incremental_run(test, self._assembly, target, texts) if test.incremental is not None else Later()
        fixtures = self._fixtures(later)
        expected = test.expected and with_file_rows(test.expected, "expected", self._root)
        self._raise()
        separates = {name for name in computed if self._quarantines(name)}
        exit_ = self._assembly.group(self._known[target].group).exit
        return Prepared(
            test=test,
            target=target,
            fixtures=fixtures,
            computed=computed,
            texts={cte.joint: self._text(cte, later, cte.joint in separates) for cte in texts},
            reads={name: self._reads(name, later) for name in computed},
            functions={name: j for name in computed if isinstance(j := self._known[name], FunctionJoint)},
            unions=frozenset(name for name in computed if isinstance(self._known[name], SinkJoint)),
            written={n: plan for n in computed[:-1] if (plan := differing_plan(self._assembly, n)) is not None},
            parameters=self._parameters(texts, later),
            expected=expected,
            checks=checks,
            errors=GroupQuery((target,), tuple(self._separated(cte) for cte in texts)).errors(later.joints),
            separates=any(cte.errors_for(cte.joint in later.joints) for cte in texts if cte.joint in separates),
            settings=tuple(sorted(self._assembly.joint(exit_).step.config.items())),
        )

    def _check_names(self, target: str) -> None:
        for path, name in (("target", target), *((f"inputs.{name}", name) for name in self._test.inputs)):
            if name not in self._known:
                message = f"no joint is named '{name}'{nearest(name, self._known)}"
                self._wrong(path, "RVT-306", message)
        if target in self._known and self._known[target].type == "source":
            remedy = "Name a joint that reads the source."
            self._wrong("target", "RVT-204", f"the target '{target}' is a source, of which nothing is computed", remedy)
        if target in self._test.inputs:
            self._wrong(f"inputs.{target}", "RVT-215", f"'{target}' is the target, whose rows are computed")

    def _computed(self, target: str) -> tuple[str, ...]:
        """Return the joints that are computed, in topological order; add errors for those that nothing gives."""
        if self._test.scope != GRAPH:
            return (target,)
        order: dict[str, None] = {}
        missing: list[str] = []
        waiting: list[tuple[str, bool]] = [(target, False)]
        seen: set[str] = set()
        while waiting:
            name, done = waiting.pop()
            if done:
                order[name] = None
            elif name not in seen and name not in self._test.inputs:
                seen.add(name)
                joint = self._known[name]
                if joint.type == "source":
                    missing.append(name)
                    continue
                waiting.append((name, True))
                waiting += [(upstream, False) for upstream in reversed(joint.upstream)]
        for name in missing:
            message = f"the input '{name}' is missing: a source that the rows of '{target}' come from"
            self._wrong("inputs", "RVT-215", message)
        return tuple(order)

    def _check_inputs(self, target: str, computed: tuple[str, ...], checks: tuple[CompiledCheck, ...]) -> None:
        test = self._test
        judged_with = {name for check in checks for name in check.reads}
        if test.scope == GRAPH:
            before, what = self._before(target), f"no joint before '{target}'"
        else:
            before, what = set(self._known[target].upstream), f"no upstream of '{target}'"
            for name in sorted(before - test.inputs.keys()):
                self._wrong("inputs", "RVT-215", f"the input '{name}' is missing, which '{target}' reads")
        for name in test.inputs.keys() - before - judged_with - {target}:
            hint = nearest(name, before | judged_with)
            self._wrong(f"inputs.{name}", "RVT-215", f"the input '{name}' is {what}{hint}")
        for name in sorted(judged_with - test.inputs.keys() - set(computed)):
            self._wrong("inputs", "RVT-215", f"the input '{name}' is missing, which a check reads")

    def _checks(self, target: str) -> tuple[CompiledCheck, ...]:
        checks = {check.name: check for check in self._known[target].checks}
        for name in self._test.checks.keys() - checks.keys():
            self._wrong(f"checks.{name}", "RVT-216", f"'{target}' has no check '{name}'{nearest(name, checks)}")
        return tuple(check for name, check in checks.items() if name in self._test.checks)

    def _before(self, target: str) -> set[str]:
        reached: set[str] = set()
        waiting = list(self._known[target].upstream)
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += self._known[name].upstream
        return reached

    def _fixtures(self, later: Later) -> dict[str, Table]:
        fixtures = {}
        given = [(name, name, self._known[name].schema, rows) for name, rows in self._test.inputs.items()]
        if later.this is not None and later.sink is not None:
            given.append((target_view(later.sink), "this", self._known[later.sink].schema, later.this))
        for relation, what, schema, rows in given:
            try:
                fixtures[relation] = fixture(rows, what, schema, self._root)
            except RivetError as error:
                self._errors += error.diagnostics
        return fixtures

    def _cte(self, name: str) -> Cte:
        group = self._assembly.group(self._known[name].group)
        return next(cte for cte in group.ctes if cte.joint == name)

    def _separated(self, cte: Cte) -> Cte:
        return cte if self._quarantines(cte.joint) else replace(cte, errors=None)

    def _text(self, cte: Cte, later: Later, separates: bool) -> str:
        incremental = cte.joint in later.joints
        return cte.good_for(incremental) if separates else cte.text_for(incremental)

    def _reads(self, name: str, later: Later) -> tuple[str, ...]:
        reads = self._known[name].upstream
        this = name in later.joints and later.sink is not None and later.this is not None
        return (*reads, target_view(str(later.sink))) if this else reads

    def _quarantines(self, name: str) -> bool:
        target = self._assembly.group(self._known[name].group).target
        return target is not None and target.errors is not None

    def _parameters(self, texts: list[Cte], later: Later) -> dict[str, Any]:
        used = {cte.joint: cte.parameters_for(cte.joint in later.joints) for cte in texts}
        values = dict(later.parameters)
        everything = {name for names in used.values() for name in names}
        values |= values_of_variables(self._assembly, everything, os.environ)
        for name, names in used.items():
            try:
                values |= parameters_of_partitions(names, self._known[name].partitions)
            except ValueError as error:
                self._wrong("target", "RVT-323", f"'{name}' {error}")
        self._raise()
        return values

    def _wrong(self, path: str, code: str, message: str, remediation: str | None = None) -> None:
        self._errors.append(self._test.location_of(path).diagnostic(code, message, remediation))

    def _raise(self) -> None:
        if self._errors:
            raise RivetError.of(self._errors)


@dataclass(frozen=True)
class Later:
    """The ``joints`` that contribute their incremental text, and what they read: ``this`` of a ``sink``, parameters."""

    joints: frozenset[str] = frozenset()
    sink: str | None = None
    this: GivenRows | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def incremental_run(test: ProjectTest, assembly: CompiledAssembly, target: str, texts: Sequence[Cte]) -> Later:
    """Return what is incremental in the test's run. Raises RVT-204, RVT-205.

    As in a run, a NULL watermark means everything: the joints whose text needs one contribute the text of a first run.
    """
    run = test.incremental
    assert run is not None
    sink = _sink(target, texts)
    if sink is None:
        message = f"'{target}' has no incremental text: nothing in it asks is_incremental()"
        raise RivetError.of([run.location.diagnostic("RVT-204", message)])
    variants = {cte.joint: cte.incremental for cte in texts if cte.incremental and cte.incremental.sink == sink}
    watermark = any(variant.watermark for variant in variants.values())
    if watermark and not run.has_watermark:
        message = "`incremental` needs `watermark`, which the text reads; null means everything"
        raise RivetError.of([run.location.diagnostic("RVT-205", message)])
    value = _watermark(test, assembly, sink) if watermark and run.watermark is not None else None
    joints = {name for name, variant in variants.items() if value is not None or not variant.watermark}
    if run.this is None and any(variants[name].this for name in joints):
        message = "`incremental` needs `this`, the rows of the target, which the text reads"
        raise RivetError.of([run.location.diagnostic("RVT-205", message)])
    return Later(frozenset(joints), sink, run.this, {watermark_of(sink): value} if value is not None else {})


def _sink(target: str, texts: Sequence[Cte]) -> str | None:
    """Return the sink whose target the run finds: the one of the target's own text, the target, or the only one."""
    sinks = {cte.joint: cte.incremental.sink for cte in texts if cte.incremental is not None}
    if target in sinks:
        return sinks[target]
    distinct = set(sinks.values())
    if target in distinct:
        return target
    return distinct.pop() if len(distinct) == 1 else None


def _watermark(test: ProjectTest, assembly: CompiledAssembly, sink: str) -> Typed:
    """Return the watermark with the type of its column, of the value itself where the type is not known."""
    run = test.incremental
    assert run is not None
    declared = assembly.target(sink)
    column = declared.watermark.column.lower() if declared is not None and declared.watermark is not None else None
    known = {name.lower(): str(type_) for name, type_ in (run.this.types or () if run.this else ())}
    planned = {field.name.lower(): field.type for field in assembly.joint(sink).schema or ()}
    name = known.get(column or "") or planned.get(column or "")
    try:
        type_ = parse_type(name) if name is not None and is_watermark_type(name) else infer_type([run.watermark])
        return Typed(read_value(run.watermark, type_), str(type_))
    except ValueError as error:
        raise RivetError.of([run.location.diagnostic("RVT-204", f"`watermark`: {error}")]) from None


_NO_END = "9999-12-31"


def parameters_of_partitions(names: Sequence[str], partitions: Partitions | None) -> dict[str, Any]:
    """Return the values of those of ``names`` that every run binds: now, and the span of all partitions.

    Raise ValueError with the end of a sentence for the keys of partitions of time, of which a test has none.
    """
    values: dict[str, Any] = {}
    if RUN_STARTED_AT in names:
        values[RUN_STARTED_AT] = Typed(datetime.now(UTC), "timestamp")
    if partitions is None:
        return values
    if PARTITION_KEYS in names:
        if partitions.of_time:
            raise ValueError(f"reads :{PARTITION_KEYS}, and a test has no run of its partitions")
        values[PARTITION_KEYS] = list(partitions.values)
    zone = ZoneInfo(partitions.timezone)
    for name, text in ((PARTITION_START, partitions.start), (PARTITION_END, partitions.end or _NO_END)):
        if name in names and text is not None:
            values[name] = datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)
    return values
