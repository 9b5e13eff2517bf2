"""Data tests as checks of joints: generic ones of their node, singular ones of the last joint that they read.

Those that read no joint, or are of a source that no joint reads, get a joint. For all that joints are put in an order
in which what each one reads comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from rivet_dagster.dbt.declared import TEST, DataTest, DbtLocation, DbtNode, DbtProject, SourceTable
from rivet_dagster.dbt.reading.config import folder_configs, merge_configs, rendered_config
from rivet_dagster.dbt.reading.project import target_values
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, ReportEntry, disabled_entry
from rivet_dagster.dbt.translation.annotations import JointDraft
from rivet_dagster.dbt.translation.checks import CheckTranslator, TranslatedCheck, clean_check
from rivet_dagster.dbt.translation.joints_of_tests import joint_of_test, reader_of
from rivet_dagster.dbt.translation.macros import MacroScope
from rivet_dagster.dbt.translation.names import Names
from rivet_dagster.dbt.translation.postgres import refuse_other_sql
from rivet_dagster.dbt.translation.strategy import LeftOutError
from rivet_dagster.dbt.translation.translator import Translator
from rivet_dagster.dbt.translation.variables import DbtVariables
from rivet_dagster.dbt.values import NOT_READ, ImportEnvironment, project_file_context, value_context
from rivet_dagster.model.check import distinct_names


@dataclass
class MovedTest:
    """A data test, where it is declared, and what became of it."""

    name: str
    location: DbtLocation
    check: TranslatedCheck | None = None
    joint: str | None = None
    final: str = ""
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass
class DataTests:
    """The data tests of a project whose joints are ``drafts``, to be read in their ``order``.

    ``refused`` are the checks that did not compile, by joint and name, ``refused_joints`` the joints. ``tests`` are the
    others, ``disabled`` is what the report has of those that are disabled, ``joints`` are those that only tests need.
    """

    project: DbtProject
    names: Names
    scope: MacroScope
    variables: DbtVariables
    translator: Translator
    drafts: Mapping[str, JointDraft]
    order: Mapping[str, int]
    refused: Mapping[tuple[str, str], str]
    refused_joints: Mapping[str, list[str]]
    environment: ImportEnvironment = NOT_READ
    tests: list[MovedTest] = field(default_factory=list)
    disabled: list[ReportEntry] = field(default_factory=list)
    joints: list[JointDraft] = field(default_factory=list)

    def translate(self) -> None:
        """Find the tests, and what each one becomes."""
        for package in self.project.packages:
            translator = self._checks(package.name)
            for node in package.nodes:
                if node.kind == TEST:
                    self._singular(node, translator)
                elif node.properties is not None and node.config.is_enabled:
                    joint = self.names.joints.get(node.key, node.versioned_name)
                    tests = [*node.properties.tests, *(test for c in node.properties.columns for test in c.tests)]
                    self._generic(tests, joint, package.name, translator, id(node) in self.names.refused)
            for table in package.sources:
                if table.config.is_enabled:
                    tests = [*table.tests, *(test for column in table.columns for test in column.tests)]
                    joint = self.names.sources[table.source, table.name][1]
                    self._generic(tests, joint, package.name, translator, False)
        self._read_sources()
        self._name_checks()

    def of(self, joint: str) -> list[MovedTest]:
        """Return the tests that are checks of a joint, once all are translated."""
        return self._by_joint.get(joint, [])

    @cached_property
    def _by_joint(self) -> dict[str, list[MovedTest]]:
        by_joint: dict[str, list[MovedTest]] = {}
        for test in self.tests:
            if test.check is not None and test.joint is not None:
                by_joint.setdefault(test.joint, []).append(test)
        return by_joint

    def _checks(self, package: str) -> CheckTranslator:
        folders = {p.name: f"{p.folder}/" for p in self.project.packages if p.folder}
        inner = next(each for each in self.project.packages if each.name == package)
        outer = self.project.root if package != self.project.root.name else None

        def folder_config(location: DbtLocation, name: str, of_project: bool) -> Mapping[str, Any]:
            holder = outer if of_project else inner
            # dbt takes off the first part alone, also where a folder of models has several.
            parts = location.file.removeprefix(folders.get(package, "")).split("/")[1:-1]
            tree = holder.tests if holder is not None else {}
            values = merge_configs(folder_configs(tree, (package, *parts, name), ""))
            known, _ = rendered_config(values, project_file_context(context))
            return {**values.values, **known.values}

        def variable(name: str) -> Any:
            return self.project.variable(package, name)

        context = value_context(variable, target_values(self.project.target), self.environment)
        return CheckTranslator(self.names, self.scope, self.variables, self.translator, context, folder_config)

    def _generic(
        self, tests: Iterable[DataTest], joint: str, package: str, translator: CheckTranslator, is_refused: bool
    ) -> None:
        for declared in tests:
            test = MovedTest(_shown(declared, joint), declared.location, joint=joint)
            try:
                is_enabled = translator.is_enabled(declared)
            except LeftOutError as error:
                test.left_out = (str(error),)
                self.tests.append(test)
                continue
            if not is_enabled:
                self.disabled.append(disabled_entry(test.name, test.location, "test"))
                continue
            self.tests.append(test)
            if joint not in self.drafts or is_refused:
                test.left_out = (f"'{joint}' is left out",)
                continue
            try:
                test.check = translator.generic(declared, package)
                later = self._later(test.check.reads, joint)
                if later is not None:
                    test.joint = later
                    test.check = replace(translator.generic(declared, package, joint), name=clean_check(test.name))
                    test.notes = (f"it is a check of {later}, which is computed from {joint}",)
                self._refuse_other_sql(test.check)
            except (LeftOutError, ValueError) as error:
                test.check, test.left_out = None, (str(error),)

    def _singular(self, node: DbtNode, translator: CheckTranslator) -> None:
        test = MovedTest(node.name, node.location)
        if not node.config.is_enabled:
            self.disabled.append(disabled_entry(node.name, node.location, "test"))
            return
        self.tests.append(test)
        if node.problem is not None or node.template is None:
            message, test.location = node.problem or ("cannot be read", node.location)
            test.left_out = (message,)
            return
        try:
            check = translator.singular(node)
            self._refuse_other_sql(check)
        except (LeftOutError, ValueError) as error:
            test.left_out = (str(error),)
            return
        missing = [joint for joint in check.reads if joint not in self.drafts]
        if missing:
            test.left_out = (f"reads {', '.join(missing)}, which is left out",)
        elif not check.reads:
            draft = joint_of_test(node, check, self._taken)
            test.left_out = tuple(self.refused_joints.get(draft.joint, ()))
            if not test.left_out:
                self.joints.append(draft)
                test.joint = draft.joint
                test.check = replace(check, options={"type": "row_count", "max": 0}, sql=None)
                test.notes = ("it is a joint of its own, whose rows are the violations",)
        else:
            test.joint = max(check.reads, key=lambda joint: self.order[joint])
            test.check = check

    @property
    def _taken(self) -> set[str]:
        names = {*self.names.joints.values(), *(joint for _, joint in self.names.sources.values())}
        return names | self.drafts.keys() | {draft.joint for draft in self.joints}

    def _read_sources(self) -> None:
        """Add the joint that reads the sources of which there are checks, and that no other joint reads."""
        read = {ref for draft in self.drafts.values() for ref in draft.refs}
        judged = {test.joint for test in self.tests if test.check is not None}
        sources = [draft for draft in self.drafts.values() if draft.is_source and draft.joint in judged - read]
        if not sources:
            return
        reader = reader_of(sources, self._taken)
        refused = self.refused_joints.get(reader.joint)
        if refused is None:
            self.joints.append(reader)
        unread = {source.joint for source in sources}
        for test in self.tests:
            if test.joint in unread and test.check is not None and refused is None:
                test.notes = (*test.notes, f"no model reads {test.joint}, so that the joint '{reader.joint}' does")
            elif test.joint in unread and test.check is not None:
                test.check, test.left_out = None, tuple(refused or ())

    def _refuse_other_sql(self, check: TranslatedCheck) -> None:
        if self.project.target.is_postgres and check.sql is not None:
            refuse_other_sql(check.sql)

    def _later(self, reads: Iterable[str], joint: str) -> str | None:
        """Return the last joint that a test of ``joint`` reads and that is computed from it. Raise LeftOutError."""
        later = None
        for other in reads:
            if other not in self.drafts:
                raise LeftOutError(f"reads {other}, which is left out")
            if joint in ancestors(other, self._refs) and (later is None or self.order[other] > self.order[later]):
                later = other
        return later

    @cached_property
    def _refs(self) -> dict[str, tuple[str, ...]]:
        return {name: draft.refs for name, draft in self.drafts.items()}

    def _name_checks(self) -> None:
        """Give the checks of a joint distinct names: those in its own file come first."""
        by_joint: dict[str, list[MovedTest]] = {}
        for test in self.tests:
            if test.check is not None and test.joint is not None:
                by_joint.setdefault(test.joint, []).append(test)
        for joint, tests in by_joint.items():
            assert tests[0].check is not None
            phase = self.drafts[joint].phase if joint in self.drafts else "assertion"
            tests.sort(key=lambda test: test.check is not None and test.check.sql is not None)
            names = [_wanted_name(test.check, phase) for test in tests if test.check is not None]
            for test, name in zip(tests, distinct_names(names), strict=True):
                test.final = name
                reason = self.refused.get((joint, name))
                if reason is not None:
                    test.left_out, test.check = (reason,), None


def _shown(test: DataTest, joint: str) -> str:
    return test.name or "_".join(part for part in (test.macro.replace(".", "_"), joint, test.column or "") if part)


def _wanted_name(check: TranslatedCheck, phase: str) -> str:
    if check.options is None or check.is_named:
        return check.name
    options = check.options
    columns = options["columns"] if "columns" in options else [options["column"]] if "column" in options else []
    return "_".join((*(["audit"] if phase == "audit" else []), str(options["type"]), *columns))


def with_freshness(draft: JointDraft, table: SourceTable) -> ReportEntry:
    """Give a source the check that its freshness becomes, and return what is told of it."""
    name = f"{table.source}.{table.name}"
    try:
        draft.freshness = _check(table)
    except LeftOutError as error:
        return ReportEntry(name, table.location, LEFT_OUT, reasons=(str(error),), kind="freshness")
    reasons = [f"it is a check that warns when the newest row is older than {draft.freshness['max_age']}"]
    if table.freshness.get("warn_after") and table.freshness.get("error_after"):
        reasons.append("error_after is not used: a check has one age")
    return ReportEntry(name, table.location, CHANGED, draft.joint, tuple(reasons), kind="freshness")


def _check(table: SourceTable) -> dict[str, Any]:
    """Return the check that a source's freshness becomes. Raise LeftOutError."""
    rule = table.freshness if isinstance(table.freshness, Mapping) else {}
    period = rule.get("warn_after") or rule.get("error_after")
    count, unit = (period.get("count"), period.get("period")) if isinstance(period, Mapping) else (None, None)
    if table.loaded_at_field is None or not re.fullmatch(r"[A-Za-z_]\w*", table.loaded_at_field):
        raise LeftOutError("freshness is left out: it needs a column as loaded_at_field")
    if not isinstance(count, int) or unit not in ("minute", "hour", "day"):
        raise LeftOutError("freshness is left out: it needs a count of minutes, hours or days")
    if rule.get("filter"):
        raise LeftOutError("freshness is left out: a check of the newest row has no filter")
    age = f"{count}{unit[0]}"
    return {"type": "freshness", "column": table.loaded_at_field, "max_age": age, "severity": "warn"}


def in_order(refs: Mapping[str, Iterable[str]]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the joints in an order, the least name first of those that are ready, and those in cycles with the cycle.

    >>> in_order({"b": ["a"], "a": [], "c": ["d"], "d": ["c"]})
    (['a', 'b'], {'c': ['c', 'd', 'c'], 'd': ['c', 'd', 'c']})
    """
    left = {name: [ref for ref in read if ref in refs] for name, read in refs.items()}
    cycles: dict[str, list[str]] = {}
    while True:
        sorter = TopologicalSorter(left)
        try:
            sorter.prepare()
            break
        except CycleError as error:
            steps: list[str] = error.args[1]
            start = min(steps)
            at = steps.index(start)
            cycle = [*steps[at:-1], *steps[:at], start][::-1]
            for name in set(steps):
                cycles[name] = cycle
                del left[name]
            left = {name: [ref for ref in read if ref in left] for name, read in left.items()}
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return order, dict(sorted(cycles.items()))


def ancestors(name: str, refs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return what a joint is computed from, however far before it.

    >>> sorted(ancestors("c", {"c": ["b"], "b": ["a"]}))
    ['a', 'b']
    """
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        for ref in refs.get(waiting.pop(), ()):
            if ref not in reached:
                reached.add(ref)
                waiting.append(ref)
    return reached
