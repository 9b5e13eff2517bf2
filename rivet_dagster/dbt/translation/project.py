"""Translation of a whole dbt project into the files of a project of joints, and the report of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rivet_dagster.dbt.declared import MODEL, SEED, SNAPSHOT, DbtLocation, DbtNode, DbtProject, Other, SourceTable
from rivet_dagster.dbt.reading.project_file import PROJECT_FILE
from rivet_dagster.dbt.report import (
    CHANGED,
    LEFT_OUT,
    NOT_NEEDED,
    UNCHANGED,
    Refused,
    Report,
    ReportEntry,
    TranslatedProject,
    disabled_entry,
)
from rivet_dagster.dbt.template import TEST as TEST_BLOCK
from rivet_dagster.dbt.translation.annotations import JointDraft
from rivet_dagster.dbt.translation.compiled_text import CompiledTexts, hidden_refs, names_in_place_of_values
from rivet_dagster.dbt.translation.data_tests import DataTests, MovedTest, in_order, with_freshness
from rivet_dagster.dbt.translation.exposures import translate_exposure
from rivet_dagster.dbt.translation.joints import JointTranslator
from rivet_dagster.dbt.translation.macros import CheckRenderer, MacroScope
from rivet_dagster.dbt.translation.names import name_joints
from rivet_dagster.dbt.translation.postgres import compare_draft, name_databases
from rivet_dagster.dbt.translation.project_files import (
    FOLDERS,
    macro_files,
    macro_lines,
    origin,
    secrets_of,
    settings_files,
    write_joint,
)
from rivet_dagster.dbt.translation.strategy import history_of, reads_dbts_columns, with_dbts_columns
from rivet_dagster.dbt.translation.translator import Translator
from rivet_dagster.dbt.translation.unit_tests import UnitTests
from rivet_dagster.dbt.translation.variables import DbtVariables, is_bound
from rivet_dagster.dbt.values import NOT_READ, ImportEnvironment, UnknownValueError


def translate(
    project: DbtProject, root: Path, refused: Refused | None = None, environment: ImportEnvironment = NOT_READ
) -> TranslatedProject:
    """Return the project of joints that a dbt project becomes; ``root`` is its directory, which is only read.

    ``environment`` has the variables of the environment that a run cannot read where they are needed.
    """
    return _Assembly(project, root, refused or Refused(), environment).translation()


class _Assembly:
    def __init__(self, project: DbtProject, root: Path, refused: Refused, environment: ImportEnvironment) -> None:
        self._project, self._root, self._refused, self._environment = project, root, refused, environment
        self._names = name_joints(project)
        self._scope = MacroScope(project)
        self._variables = DbtVariables(project, environment, refused.imported)
        self._translator = Translator(self._names, self._scope, self._variables, refused.macros)
        compiled = CompiledTexts(root, project, self._names)
        self._databases = name_databases(project)
        self._joints = JointTranslator(
            root, project, self._names, self._databases, self._translator, compiled, refused.joints, environment
        )
        self._drafts: dict[str, JointDraft] = {}
        self._left_out: list[JointDraft] = []
        self._others: list[ReportEntry] = []

    def translation(self) -> TranslatedProject:
        self._translate_nodes()
        self._leave_out_other_sql()
        self._with_dbts_columns()
        self._leave_out_readers()
        tests = self._tests()
        files: dict[str, str] = {}
        lines: dict[tuple[str, int], tuple[str, str]] = {}
        written = [*self._drafts.values(), *tests.joints]
        for draft in written:
            write_joint(draft, tests.of(draft.joint), files, lines)
        macros, entries = macro_files(
            self._project,
            self._scope,
            self._translator,
            [macro for draft in self._drafts.values() for macro in draft.macros],
        )
        files |= macros
        self._others += entries
        self._others += [
            ReportEntry(
                key, location, CHANGED, reasons=(f"it is a secret, so its value is ${{{name}}}",), kind="profile"
            )
            for key, name in self._secrets().items()
            if (location := self._project.target.location) is not None
        ]
        used = {str(draft.keys["catalog"]) for draft in self._drafts.values() if "catalog" in draft.keys}
        catalogs = {name: self._databases.options(name) for name in self._databases.used(used)}
        self._others += self._databases.entries(used)
        variables = self._variables.written(files.values())
        self._others += self._variables.notes
        sessions = self._joints.sessions
        exposures = self._exposures()
        files |= settings_files(
            self._project, variables, used, self._databases.published, catalogs, sessions, exposures, bool(macros)
        )
        copies = {
            f"seeds/{draft.keys['table']}": draft.copied[0]
            for draft in self._drafts.values()
            if draft.copied is not None and draft.copied[1] is None
        }
        files |= {
            f"seeds/{draft.keys['table']}": draft.copied[1]
            for draft in self._drafts.values()
            if draft.copied is not None and draft.copied[1] is not None
        }
        return TranslatedProject(
            files=files,
            copies=copies,
            report=self._report(tests),
            joint_files={draft.path: draft.joint for draft in written},
            check_lines=lines,
            macro_lines={path: macro_lines(text) for path, text in macros.items()},
            origins={draft.path: origin(draft, files[draft.path]) for draft in self._drafts.values()},
            variables=(
                *filter(is_bound, variables.values()),
                *(f"${{{name}}}" for name in self._secrets().values()),
                *(value for options in catalogs.values() for value in options.values()),
                *sessions.values(),
            ),
            folders=FOLDERS,
            unsaid=self._unsaid,
            unit_tests=lambda assembly: UnitTests(self._root, self._project, self._names, assembly).translate(),
            importable=self._variables.importable(),
        )

    @cached_property
    def _marks(self) -> dict[str, str]:
        """Texts that stand for the variables that only a run knows."""
        bound = [name for name, value in self._variables.values.items() if is_bound(value)]
        return {name: f"rivet_bound_{number}" for number, name in enumerate(bound)}

    def _secrets(self) -> dict[str, str]:
        return secrets_of(self._project.target.values.get("server_side_parameters"))

    def _tests(self) -> DataTests:
        tests = DataTests(
            project=self._project,
            names=self._names,
            scope=self._scope,
            variables=self._variables,
            translator=self._translator,
            drafts=self._drafts,
            order=self._order,
            refused=self._refused.checks,
            refused_joints=self._refused.joints,
            environment=self._environment,
        )
        tests.translate()
        return tests

    def _report(self, tests: DataTests) -> Report:
        drafts = [*self._drafts.values(), *self._left_out]
        notes = [*self._others, *tests.disabled, *_taken(self._environment)]
        return report_of(self._project, self._scope, drafts, notes, tests.tests)

    def _exposures(self) -> dict[str, dict[str, Any]]:
        """Return the exposures by name, and add what is told of them."""
        taken = {*self._drafts}
        exposures: dict[str, dict[str, Any]] = {}
        for package in self._project.packages:
            for declared in package.exposures:
                name, translated, entry = translate_exposure(declared, self._names, self._drafts, taken)
                self._others.append(entry)
                if translated is not None:
                    taken.add(name)
                    exposures[name] = translated
        return exposures

    def _translate_nodes(self) -> None:
        for package in self._project.packages:
            for node in package.nodes:
                if node.kind not in (MODEL, SEED, SNAPSHOT):
                    continue
                if not node.config.is_enabled:
                    self._others.append(disabled_entry(node.versioned_name, node.location, node.kind))
                    continue
                if node.kind == MODEL:
                    self._add(self._joints.model(node))
                elif node.kind == SEED:
                    self._add(self._joints.seed(node))
                else:
                    for draft in self._joints.snapshot(node):
                        self._add(draft)
            for table in package.sources:
                if not table.config.is_enabled:
                    self._others.append(disabled_entry(f"{table.source}.{table.name}", table.location, "source"))
                    continue
                draft = self._joints.source(table, self._names.sources[table.source, table.name][1])
                self._add(draft)
                if table.freshness:
                    self._others.append(with_freshness(draft, table))

    def _add(self, draft: JointDraft) -> None:
        errors = self._refused.joints.get(draft.joint, [])
        if errors and not draft.left_out and isinstance(draft.node, DbtNode) and draft.node.template is None:
            draft.left_out += errors  # a seed, or a snapshot of a relation: no other text could take its place
        if draft.left_out or draft.joint in self._drafts:
            if not draft.left_out:
                draft.left_out.append(
                    f"the joint '{draft.joint}' is there already, {self._drafts[draft.joint].location}"
                )
            self._left_out.append(draft)
        else:
            self._drafts[draft.joint] = draft

    def _leave_out_other_sql(self) -> None:
        """Leave out the joints whose queries are another database's SQL, and would be other ones in Spark."""
        drafts = self._drafts.items() if self._project.target.is_postgres else ()
        for name, draft in list(drafts):
            if draft.body is not None:
                compare_draft(draft, self._rendered(draft))
            if draft.left_out:
                self._left_out.append(self._drafts.pop(name))

    def _with_dbts_columns(self) -> None:
        """Add a joint with dbt's own columns for each snapshot of which a reader names them."""
        snapshots = {
            d.joint: d for d in self._drafts.values() if isinstance(d.node, DbtNode) and d.node.kind == SNAPSHOT
        }
        bodies: dict[str, list[str]] = {}
        for reader in self._drafts.values() if snapshots else ():
            for ref in reader.refs if reader.body is not None else ():
                bodies.setdefault(ref, []).append(str(reader.body))
        for name in sorted(snapshots):
            draft = snapshots[name]
            assert isinstance(draft.node, DbtNode)
            history = history_of(draft.node.config)
            if not any(reads_dbts_columns(body, history.only_dbts) for body in bodies.get(name, ())):
                continue
            taken = {*self._drafts, *self._names.joints.values()}
            stored = next(n for n in (f"{name}_history{'_' * i}" for i in range(len(taken) + 1)) if n not in taken)
            if stored in self._refused.joints:
                draft.left_out += self._refused.joints[stored]
                self._left_out.append(self._drafts.pop(name))
                continue
            path = draft.path.removesuffix(".sql")
            view = JointDraft(
                draft.node, name, f"{path}.sql", draft.location, body=with_dbts_columns(history, stored).strip()
            )
            view.refs, view.phase = (stored,), "assertion"
            for key in ("description", "tags", "group", "owners"):
                if key in draft.keys:
                    view.keys[key] = draft.keys[key]
            view.reasons = [
                *draft.reasons,
                f"a reader names dbt's own columns: '{stored}' writes the table, and '{name}' adds them",
            ]
            draft.keys.setdefault("table", name)
            draft.joint, draft.path, draft.reasons = stored, f"{path}{stored.removeprefix(name)}.sql", []
            self._drafts[stored], self._drafts[name] = draft, view

    def _leave_out_readers(self) -> None:
        """Leave out what is in a cycle, and what reads something that is left out."""
        gone = {draft.joint for draft in self._left_out}
        disabled = {name for name in self._names.joints.values() if name not in self._drafts} | gone
        order, cycles = in_order({name: draft.refs for name, draft in self._drafts.items()})
        for name, cycle in cycles.items():
            draft = self._drafts.pop(name)
            draft.left_out.append(f"is in a cycle: {' -> '.join(cycle)}")
            self._left_out.append(draft)
            disabled.add(name)
        order += [name for name in self._drafts if name not in order]
        changed = True
        while changed:
            changed = False
            for name in order:
                reader = self._drafts.get(name)
                missing = [ref for ref in reader.refs if ref in disabled] if reader is not None else []
                if reader is not None and missing:
                    del self._drafts[name]
                    reader.left_out.append(f"reads {', '.join(missing)}, which is left out")
                    self._left_out.append(reader)
                    disabled.add(name)
                    changed = True
        self._order = {name: position for position, name in enumerate(n for n in order if n in self._drafts)}

    def _unsaid(self) -> Refused:
        """Return the joints that compile but would fail, or read something else, each with the reasons."""
        refusals: dict[str, list[str]] = {}
        importable, imported = self._variables.importable(), set[str]()
        for draft in self._drafts.values():
            if draft.body is None or not isinstance(draft.node, DbtNode):
                continue
            render = self._rendered(draft)
            hidden = hidden_refs(draft.body, draft.refs, render)
            if hidden:
                reason = (
                    f"ref('{hidden[0]}') is read where the query has a CTE '{hidden[0]}', which would be read in its "
                    "place: rename the CTE"
                )
                refusals[draft.joint] = [reason, reason]  # the text that dbt compiled would not be another one
            elif draft.status is None and self._marks:
                names = self._bound_names(draft, render)
                imported |= importable & {*names}
                names = [name for name in names if name not in importable]
                if names:
                    refusals[draft.joint] = [
                        f"var('{name}') is {self._variables.values[name]} of the environment, which only a run knows "
                        "and gives as a value: here it is a name, or a part of the query; set it for the import, whose "
                        "value is taken"
                        for name in names
                    ]
        return Refused(refusals, imported=frozenset(imported))

    def _bound_names(self, draft: JointDraft, render: Callable[[str, str, bool], str]) -> list[str]:
        assert draft.body is not None
        try:
            texts = {render(draft.body, "", incremental) for incremental in (False, True)}
        except UnknownValueError:
            return []
        wrong = [names_in_place_of_values(text, self._marks) for text in texts]
        return list(dict.fromkeys(name for names in wrong for name in names))

    def _rendered(self, draft: JointDraft) -> Callable[[str, str, bool], str]:
        texts = [(self._scope.name_of(macro), self._translator.text_of_macro(macro)) for macro in draft.macros]

        def render(text: str, prefix: str, incremental: bool) -> str:
            values = self._marks | self._variables.literal()
            return CheckRenderer(texts, values).render(text, prefix, incremental)

        return render


def _taken(environment: ImportEnvironment) -> Iterator[ReportEntry]:
    """Yield what is told of the variables of the environment whose values the new project has."""
    for name, location in environment.taken.items():
        reason = "its value is that of the import, since no run can read it there: import again where it is another"
        yield ReportEntry(name, location or DbtLocation(PROJECT_FILE), CHANGED, reasons=(reason,), kind="environment")


def report_of(
    project: DbtProject,
    scope: MacroScope,
    drafts: Sequence[JointDraft],
    notes: Sequence[ReportEntry],
    moved: Sequence[MovedTest],
) -> Report:
    """Return the report of all ``drafts``, those that are left out among them; ``notes`` are other things."""
    models = [_entry(d, None) for d in drafts if isinstance(d.node, DbtNode) and d.node.kind == MODEL]
    others = [_entry(d, d.node.kind) for d in drafts if isinstance(d.node, DbtNode) and d.node.kind in (SEED, SNAPSHOT)]
    others += [_entry(d, "source") for d in drafts if isinstance(d.node, SourceTable)]
    others += notes
    for package in project.packages:
        others += [_other(other) for other in (*package.others, *package.problems)]
    others += [
        ReportEntry(
            macro.name,
            macro.location,
            LEFT_OUT,
            reasons=(f"the macro is there already, {first.location}",),
            kind="macro",
        )
        for macro, first in scope.repeated
    ]
    others += [
        ReportEntry(
            macro.name, macro.location, UNCHANGED, reasons=("its SQL is that of the checks",), kind="generic_test"
        )
        for macro in project.root.macros
        if macro.block.kind == TEST_BLOCK
    ]
    tests = [_test(test) for test in moved]
    return Report(*(tuple(sorted(each, key=_position)) for each in (models, tests, others)))


def _position(entry: ReportEntry) -> tuple[str, int, str]:
    return entry.location.file, entry.location.line, entry.name


def _entry(draft: JointDraft, kind: str | None) -> ReportEntry:
    node = draft.node
    name = node.versioned_name if isinstance(node, DbtNode) else f"{node.source}.{node.name}"
    if draft.left_out:
        return ReportEntry(
            name, draft.problem_location or draft.location, LEFT_OUT, None, tuple(draft.left_out), kind=kind
        )
    status = draft.status or (CHANGED if draft.reasons else UNCHANGED)
    return ReportEntry(name, draft.location, status, draft.joint, tuple(draft.reasons), kind=kind)


def _test(test: MovedTest) -> ReportEntry:
    notes = (*test.notes, *test.check.rules.notes) if test.check is not None else ()
    is_own = test.check is not None and test.check.options is not None
    status = LEFT_OUT if test.check is None else UNCHANGED if is_own and not notes else CHANGED
    how = () if test.check is None or is_own else ("it is SQL",)
    joint = test.joint if test.check is not None else None
    check = test.final if test.check is not None else None
    return ReportEntry(test.name, test.location, status, joint, (*test.left_out, *how, *notes), check)


def _other(other: Other) -> ReportEntry:
    reasons = (other.reason or f"a {other.kind.replace('_', ' ')} has no counterpart",)
    status = LEFT_OUT if other.is_needed else NOT_NEEDED
    return ReportEntry(other.name, other.location, status, reasons=reasons, kind=other.kind)
