"""Data tests as checks of joints: generic ones of their node, singular ones of the last joint that they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.dbt.declared import TEST, DataTest, DbtProject, Node, Place
from rivet_dagster.dbt.macros.scope import MacroScope
from rivet_dagster.dbt.reading.folder_config import folder_configs, merged, rendered_config
from rivet_dagster.dbt.reading.project import target_values
from rivet_dagster.dbt.report import Entry, disabled
from rivet_dagster.dbt.translation.checks import Check, CheckTranslator
from rivet_dagster.dbt.translation.draft import Draft
from rivet_dagster.dbt.translation.names import Names
from rivet_dagster.dbt.translation.order import ancestors
from rivet_dagster.dbt.translation.strategy import LeftOutError
from rivet_dagster.dbt.translation.template_text import Translator
from rivet_dagster.dbt.translation.variables import Variables
from rivet_dagster.dbt.values import project_file_context, value_context
from rivet_dagster.model.check import distinct_names


@dataclass
class MovedTest:
    """A data test, where it is declared, and what became of it."""

    name: str
    place: Place
    check: Check | None = None
    joint: str | None = None
    final: str = ""
    left_out: tuple[str, ...] = ()


@dataclass
class DataTests:
    """The data tests of a project whose joints are ``drafts``, to be read in their ``order``.

    ``refused`` are the checks that did not compile, by joint and name. ``found`` are the tests, ``disabled`` is what is
    told of those that are disabled.
    """

    project: DbtProject
    names: Names
    scope: MacroScope
    variables: Variables
    translator: Translator
    drafts: Mapping[str, Draft]
    order: Mapping[str, int]
    refused: Mapping[tuple[str, str], str]
    found: list[MovedTest] = field(default_factory=list)
    disabled: list[Entry] = field(default_factory=list)

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
        self._name_checks()

    def of(self, joint: str) -> list[MovedTest]:
        """Return the tests that are checks of a joint."""
        return [test for test in self.found if test.joint == joint and test.check is not None]

    def _checks(self, package: str) -> CheckTranslator:
        folders = {p.name: f"{p.folder}/" for p in self.project.packages if p.folder}
        own = next(each for each in self.project.packages if each.name == package)
        outer = self.project.root if package != self.project.root.name else None

        def folder_config(place: Place, name: str, of_project: bool) -> Mapping[str, Any]:
            holder = outer if of_project else own
            # dbt takes off the first part alone, also where a folder of models has several.
            parts = place.file.removeprefix(folders.get(package, "")).split("/")[1:-1]
            tree = holder.tests if holder is not None else {}
            values = merged(folder_configs(tree, (package, *parts, name), ""))
            known, _ = rendered_config(values, project_file_context(context))
            return {**values.values, **known.values}

        def variable(name: str) -> Any:
            return self.project.variable(package, name)

        context = value_context(variable, target_values(self.project.target))
        return CheckTranslator(self.names, self.scope, self.variables, self.translator, context, folder_config)

    def _generic(
        self, tests: Iterable[DataTest], joint: str, package: str, translator: CheckTranslator, is_refused: bool
    ) -> None:
        for declared in tests:
            test = MovedTest(_shown(declared, joint), declared.place, joint=joint)
            try:
                is_enabled = translator.is_enabled(declared)
            except LeftOutError as error:
                test.left_out = (str(error),)
                self.found.append(test)
                continue
            if not is_enabled:
                self.disabled.append(disabled(test.name, test.place, "test"))
                continue
            self.found.append(test)
            if joint not in self.drafts or is_refused:
                test.left_out = (f"'{joint}' is left out",)
                continue
            try:
                test.check = translator.generic(declared, package)
                self._refuse_downstream(test, joint)
            except (LeftOutError, ValueError) as error:
                test.check, test.left_out = None, (str(error),)

    def _singular(self, node: Node, translator: CheckTranslator) -> None:
        test = MovedTest(node.name, node.place)
        if not node.config.is_enabled:
            self.disabled.append(disabled(node.name, node.place, "test"))
            return
        self.found.append(test)
        if node.problem is not None or node.template is None:
            message, test.place = node.problem or ("cannot be read", node.place)
            test.left_out = (message,)
            return
        try:
            check = translator.singular(node)
        except (LeftOutError, ValueError) as error:
            test.left_out = (str(error),)
            return
        missing = [joint for joint in check.reads if joint not in self.drafts]
        if missing:
            test.left_out = (f"reads {', '.join(missing)}, which is left out",)
        elif not check.reads:
            test.left_out = ("reads no model, so there is no joint that it could belong to",)
        else:
            test.joint = max(check.reads, key=lambda joint: self.order[joint])
            test.check = check

    def _refuse_downstream(self, test: MovedTest, joint: str) -> None:
        assert test.check is not None
        refs = {name: draft.refs for name, draft in self.drafts.items()}
        for other in test.check.reads:
            if other not in self.drafts:
                raise LeftOutError(f"reads {other}, which is left out")
            if joint in ancestors(other, refs):
                raise LeftOutError(f"reads {other}, which is computed from {joint}: a check is judged before that")

    def _name_checks(self) -> None:
        """Give the checks of a joint distinct names: those in its own file come first."""
        by_joint: dict[str, list[MovedTest]] = {}
        for test in self.found:
            if test.check is not None and test.joint is not None:
                by_joint.setdefault(test.joint, []).append(test)
        for joint, tests in by_joint.items():
            assert tests[0].check is not None
            phase = self.drafts[joint].phase
            tests.sort(key=lambda test: test.check is not None and test.check.sql is not None)
            names = [_wanted_name(test.check, phase) for test in tests if test.check is not None]
            for test, name in zip(tests, distinct_names(names), strict=True):
                test.final = name
                reason = self.refused.get((joint, name))
                if reason is not None:
                    test.left_out, test.check = (reason,), None


def _shown(test: DataTest, joint: str) -> str:
    return test.name or "_".join(part for part in (test.macro.replace(".", "_"), joint, test.column or "") if part)


def _wanted_name(check: Check, phase: str) -> str:
    if check.options is None or check.is_named:
        return check.name
    options = check.options
    columns = options["columns"] if "columns" in options else [options["column"]]
    return "_".join((*(["audit"] if phase == "audit" else []), str(options["type"]), *columns))
