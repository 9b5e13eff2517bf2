"""Translation of a whole dbt project into the files of a project of joints, and the report of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rivet_dagster.dbt.declared import (
    MODEL,
    SEED,
    SNAPSHOT,
    TEST,
    DataTest,
    DbtProject,
    Node,
    Other,
    Place,
    SourceTable,
)
from rivet_dagster.dbt.macros.rendering import CheckRenderer
from rivet_dagster.dbt.macros.scope import MacroScope
from rivet_dagster.dbt.reading.folder_config import folder_configs, merged
from rivet_dagster.dbt.reading.project import target_values
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, UNCHANGED, Entry, Report
from rivet_dagster.dbt.template import TEST as TEST_BLOCK
from rivet_dagster.dbt.translation.checks import Check, CheckTranslator
from rivet_dagster.dbt.translation.compiled_text import CompiledTexts
from rivet_dagster.dbt.translation.hidden_refs import hidden_refs
from rivet_dagster.dbt.translation.joints import Draft, JointTranslator, freshness_check
from rivet_dagster.dbt.translation.macro_files import macro_files, macro_lines
from rivet_dagster.dbt.translation.names import name_joints
from rivet_dagster.dbt.translation.order import ancestors, in_order
from rivet_dagster.dbt.translation.settings import FOLDERS, settings_files
from rivet_dagster.dbt.translation.snapshots import history_of, reads_dbts_columns, with_dbts_columns
from rivet_dagster.dbt.translation.strategy import LeftOutError
from rivet_dagster.dbt.translation.template_text import Translator
from rivet_dagster.dbt.translation.variables import Variables
from rivet_dagster.dbt.translation.writing import annotation_lines, yaml_lines
from rivet_dagster.dbt.values import value_context
from rivet_dagster.model.check import distinct_names


@dataclass(frozen=True)
class Refused:
    """What an earlier translation could not be compiled with: reasons by joint, by joint and check, and by macro."""

    joints: Mapping[str, list[str]] = field(default_factory=dict)
    checks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Translation:
    """The files of the new project by path, those that are copied from the old one, and the report.

    ``joint_files`` are the joints by their files, ``check_lines`` the checks by file and line, or line 0 for all of a
    file, ``macro_lines`` the macros by the line on which each one begins, ``origins`` the places that the lines of a
    joint's file came from.
    """

    files: Mapping[str, str]
    copies: Mapping[str, str]
    report: Report
    joint_files: Mapping[str, str]
    check_lines: Mapping[tuple[str, int], tuple[str, str]]
    macro_lines: Mapping[str, Mapping[int, str]]
    origins: Mapping[str, tuple[int, str, Sequence[int]]]
    variables: tuple[str, ...]
    folders: tuple[str, ...]
    hidden_refs: Callable[[], dict[str, str]]

    def macro_at(self, file: str, line: int) -> str | None:
        """Return the macro that a line of a file of macros is in."""
        lines = self.macro_lines.get(file, {})
        before = [begin for begin in lines if begin <= max(line, 1)]
        return lines[max(before)] if before else next(iter(lines.values()), None)

    def original_line(self, file: str, line: int | None) -> Place | None:
        """Return where a line of a joint's file was in the dbt project; None for its annotations."""
        first, source, lines = self.origins.get(file, (0, "", ()))
        position = (line or 0) - first
        return Place(source, lines[position]) if line is not None and 0 <= position < len(lines) else None


@dataclass
class _Test:
    """A data test, where it is declared, and what became of it."""

    name: str
    place: Place
    check: Check | None = None
    joint: str | None = None
    final: str = ""
    left_out: tuple[str, ...] = ()


def translate(project: DbtProject, root: Path, refused: Refused | None = None) -> Translation:
    """Return the project of joints that a dbt project becomes; ``root`` is its directory, which is only read."""
    return _Assembly(project, root, refused or Refused()).translation()


class _Assembly:
    def __init__(self, project: DbtProject, root: Path, refused: Refused) -> None:
        self._project, self._root, self._refused = project, root, refused
        self._names = name_joints(project)
        self._scope = MacroScope(project)
        self._variables = Variables(project)
        self._translator = Translator(self._names, self._scope, self._variables, refused.macros)
        compiled = CompiledTexts(root, project, self._names)
        self._joints = JointTranslator(root, project, self._names, self._translator, compiled, refused.joints)
        self._drafts: dict[str, Draft] = {}
        self._left_out: list[Draft] = []
        self._tests: list[_Test] = []
        self._others: list[Entry] = []

    def translation(self) -> Translation:
        self._translate_nodes()
        self._with_dbts_columns()
        self._leave_out_readers()
        self._translate_tests()
        self._name_checks()
        files: dict[str, str] = {}
        lines: dict[tuple[str, int], tuple[str, str]] = {}
        for draft in self._drafts.values():
            self._write(draft, files, lines)
        macros, entries = macro_files(self._project, self._scope, self._translator, self._used_macros())
        files |= macros
        self._others += entries
        files |= settings_files(self._project, self._variables.values, self._drafts.values(), bool(macros))
        lines |= {(path, 0): check for path, check in self._check_files().items()}
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
        return Translation(
            files=files,
            copies=copies,
            report=self._report(),
            joint_files={draft.path: draft.joint for draft in self._drafts.values()},
            check_lines=lines,
            macro_lines={path: macro_lines(text) for path, text in macros.items()},
            origins={draft.path: self._origin(draft, files[draft.path]) for draft in self._drafts.values()},
            variables=tuple(v for v in self._variables.values.values() if isinstance(v, str) and "${" in v),
            folders=FOLDERS,
            hidden_refs=self._hidden_refs,
        )

    # Joints

    def _translate_nodes(self) -> None:
        for package in self._project.packages:
            for node in package.nodes:
                if node.kind not in (MODEL, SEED, SNAPSHOT):
                    continue
                if not node.config.is_enabled:
                    self._tell_disabled(node.versioned_name, node.place, node.kind)
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
                    self._tell_disabled(f"{table.source}.{table.name}", table.place, "source")
                    continue
                draft = self._joints.source(table, self._names.sources[table.source, table.name][1])
                self._add(draft)
                if table.freshness:
                    self._others.append(_with_freshness(draft, table))

    def _tell_disabled(self, name: str, place: Place, kind: str) -> None:
        self._others.append(Entry(name, place, LEFT_OUT, reasons=(f"the {kind} is disabled",), kind="disabled"))

    def _add(self, draft: Draft) -> None:
        if draft.left_out or draft.joint in self._drafts:
            if not draft.left_out:
                draft.left_out.append(f"the joint '{draft.joint}' is there already, {self._drafts[draft.joint].place}")
            self._left_out.append(draft)
        else:
            self._drafts[draft.joint] = draft

    def _with_dbts_columns(self) -> None:
        """Add a joint with dbt's own columns for each snapshot of which a reader names them."""
        snapshots = {d.joint: d for d in self._drafts.values() if isinstance(d.node, Node) and d.node.kind == SNAPSHOT}
        readers = [d for d in self._drafts.values() if d.body is not None and reads_dbts_columns(d.body)]
        for name in sorted({ref for reader in readers for ref in reader.refs if ref in snapshots}):
            draft = snapshots[name]
            stored = f"{name}_history"
            if stored in self._drafts or stored in self._names.joints.values() or not isinstance(draft.node, Node):
                continue
            history = history_of(draft.node.config)
            path = draft.path.removesuffix(".sql")
            view = Draft(draft.node, name, f"{path}.sql", draft.place, body=with_dbts_columns(history, stored).strip())
            view.refs, view.phase = (stored,), "assertion"
            for key in ("description", "tags", "group", "owners"):
                if key in draft.keys:
                    view.keys[key] = draft.keys[key]
            view.reasons = [
                *draft.reasons,
                f"a reader names dbt's own columns: '{stored}' writes the table, and '{name}' adds them",
            ]
            draft.keys.setdefault("table", name)
            draft.joint, draft.path, draft.reasons = stored, f"{path}_history.sql", []
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

    def _used_macros(self) -> list[Any]:
        used = []
        for draft in self._drafts.values():
            node = draft.node
            if isinstance(node, Node) and node.template is not None and draft.status is None and draft.body is not None:
                found = self._translator.of_node(node, "write_strategy" in draft.keys, "")
                used += self._translator.reached(found)
        return used

    # Tests

    def _translate_tests(self) -> None:
        for package in self._project.packages:
            translator = self._checks(package.name)
            for node in package.nodes:
                if node.kind == TEST:
                    self._singular(node, translator)
                elif node.properties is not None and node.config.is_enabled:
                    joint = self._names.joints.get(node.key, node.versioned_name)
                    tests = [*node.properties.tests, *(test for c in node.properties.columns for test in c.tests)]
                    self._generic(tests, joint, package.name, translator, id(node) in self._names.refused)
            for table in package.sources:
                if table.config.is_enabled:
                    tests = [*table.tests, *(test for column in table.columns for test in column.tests)]
                    joint = self._names.sources[table.source, table.name][1]
                    self._generic(tests, joint, package.name, translator, False)

    def _checks(self, package: str) -> CheckTranslator:
        trees = [(p.name, p) for p in self._project.packages if p.name in (package, self._project.root.name)]

        def folder_config(place: Place, name: str) -> Any:
            parts = place.file.split("/")[1:-1]
            configs = [c for _, p in trees for c in folder_configs(p.tests, (package, *parts, name), "")]
            return merged(configs)

        def variable(name: str) -> Any:
            return self._project.variable(package, name)

        context = value_context(variable, target_values(self._project.target))
        return CheckTranslator(self._names, self._scope, self._variables, self._translator, context, folder_config)

    def _generic(
        self, tests: Iterable[DataTest], joint: str, package: str, translator: CheckTranslator, is_refused: bool
    ) -> None:
        for declared in tests:
            test = _Test(_shown(declared, joint), declared.place, joint=joint)
            if str(declared.config.get("enabled", True)).lower() == "false":
                self._tell_disabled(test.name, test.place, "test")
                continue
            self._tests.append(test)
            if joint not in self._drafts or is_refused:
                test.left_out = (f"'{joint}' is left out",)
                continue
            try:
                test.check = translator.generic(declared, package)
                self._refuse_downstream(test, joint)
            except (LeftOutError, ValueError) as error:
                test.check, test.left_out = None, (str(error),)

    def _singular(self, node: Node, translator: CheckTranslator) -> None:
        test = _Test(node.name, node.place)
        if not node.config.is_enabled:
            self._tell_disabled(node.name, node.place, "test")
            return
        self._tests.append(test)
        if node.problem is not None or node.template is None:
            message, test.place = node.problem or ("cannot be read", node.place)
            test.left_out = (message,)
            return
        try:
            check = translator.singular(node)
        except (LeftOutError, ValueError) as error:
            test.left_out = (str(error),)
            return
        missing = [joint for joint in check.reads if joint not in self._drafts]
        if missing:
            test.left_out = (f"reads {', '.join(missing)}, which is left out",)
        elif not check.reads:
            test.left_out = ("reads no model, so there is no joint that it could belong to",)
        else:
            test.joint = max(check.reads, key=lambda joint: self._order[joint])
            test.check = check

    def _refuse_downstream(self, test: _Test, joint: str) -> None:
        assert test.check is not None
        refs = {name: draft.refs for name, draft in self._drafts.items()}
        for other in test.check.reads:
            if other not in self._drafts:
                raise LeftOutError(f"reads {other}, which is left out")
            if joint in ancestors(other, refs):
                raise LeftOutError(f"reads {other}, which is computed from {joint}: a check is judged before that")

    def _name_checks(self) -> None:
        """Give the checks of a joint distinct names: those in its own file come first."""
        by_joint: dict[str, list[_Test]] = {}
        for test in self._tests:
            if test.check is not None and test.joint is not None:
                by_joint.setdefault(test.joint, []).append(test)
        for joint, tests in by_joint.items():
            assert tests[0].check is not None
            phase = self._drafts[joint].phase
            tests.sort(key=lambda test: test.check is not None and test.check.sql is not None)
            names = [_wanted_name(test.check, phase) for test in tests if test.check is not None]
            for test, name in zip(tests, distinct_names(names), strict=True):
                test.final = name
                reason = self._refused.checks.get((joint, name))
                if reason is not None:
                    test.left_out, test.check = (reason,), None

    # Files

    def _write(self, draft: Draft, files: dict[str, str], lines: dict[tuple[str, int], tuple[str, str]]) -> None:
        checks = [test for test in self._tests if test.joint == draft.joint and test.check is not None]
        own = [test for test in checks if test.check is not None and test.check.options is not None]
        kind = "audit" if draft.phase == "audit" else "assert"
        for test in checks:
            if test.check is not None and test.check.options is None:
                path = f"quality/{draft.joint}/{test.final}.sql"
                files[path] = test.check.file(draft.phase)
        if draft.body is None:
            keys = dict(draft.keys)
            entries = [test.check.entry() for test in own if test.check is not None]
            entries += [draft.freshness] if draft.freshness is not None else []
            if entries:
                keys["quality"] = {f"{draft.phase}s": entries}
            files[draft.path] = yaml_lines(keys)
            listed = [n for n, line in enumerate(files[draft.path].splitlines(), 1) if line.startswith("    - {")]
            lines.update({(draft.path, n): (draft.joint, t.final) for n, t in zip(listed, own, strict=False)})
            return
        head = [(key, value) for key, value in draft.keys.items() if key != "write_strategy"]
        head += [("write_strategy", draft.keys["write_strategy"])] if "write_strategy" in draft.keys else []
        for test in own:
            assert test.check is not None
            lines[draft.path, len(head) + 1] = (draft.joint, test.final)
            head.append((kind, test.check.annotation()))
        text = annotation_lines(head)
        files[draft.path] = f"{text}\n{draft.body}\n" if text else f"{draft.body}\n"

    def _check_files(self) -> dict[str, tuple[str, str]]:
        """Return the checks that have files of their own, by these."""
        of_files = [t for t in self._tests if t.check is not None and t.check.options is None and t.joint is not None]
        return {f"quality/{test.joint}/{test.final}.sql": (str(test.joint), test.final) for test in of_files}

    def _origin(self, draft: Draft, text: str) -> tuple[int, str, Sequence[int]]:
        """Return on which line of a joint's file its query begins, and from where the lines of that came."""
        if draft.body is None or not draft.lines:
            return 0, "", ()
        first = text[: len(text) - len(draft.body) - 1].count("\n") + 1
        return first, draft.place.file, draft.lines

    def _hidden_refs(self) -> dict[str, str]:
        """Return the joints whose query reads a joint that its own CTE hides, each with the reason."""
        found = {}
        for draft in self._drafts.values():
            if draft.body is None or not isinstance(draft.node, Node):
                continue
            hidden = hidden_refs(draft.body, draft.refs, self._rendered(draft))
            if hidden:
                found[draft.joint] = (
                    f"ref('{hidden[0]}') is read where the query has a CTE '{hidden[0]}', which would be read in its "
                    "place: rename the CTE"
                )
        return found

    def _rendered(self, draft: Draft) -> Callable[[str, str, bool], str]:
        macros: list[Any] = []
        if isinstance(draft.node, Node) and draft.node.template is not None and draft.status is None:
            macros = self._translator.reached(self._translator.of_node(draft.node, True, ""))
        texts = [(self._scope.name_of(macro), self._translator.text_of_macro(macro)) for macro in macros]

        def render(text: str, prefix: str, incremental: bool) -> str:
            return CheckRenderer(texts, self._variables.values).render(text, prefix, incremental)

        return render

    # Report

    def _report(self) -> Report:
        drafts = [*self._drafts.values(), *self._left_out]
        models = [_entry(d, None) for d in drafts if isinstance(d.node, Node) and d.node.kind == MODEL]
        others = [
            _entry(d, d.node.kind) for d in drafts if isinstance(d.node, Node) and d.node.kind in (SEED, SNAPSHOT)
        ]
        others += [_entry(d, "source") for d in drafts if isinstance(d.node, SourceTable)]
        others += self._others
        for package in self._project.packages:
            others += [_other(other) for other in (*package.others, *package.problems)]
        others += [
            Entry(
                macro.name, macro.place, LEFT_OUT, reasons=(f"the macro is there already, {first.place}",), kind="macro"
            )
            for macro, first in self._scope.repeated
        ]
        others += [
            Entry(macro.name, macro.place, UNCHANGED, reasons=("its SQL is that of the checks",), kind="generic_test")
            for macro in self._project.root.macros
            if macro.block.kind == TEST_BLOCK
        ]
        tests = []
        for test in self._tests:
            notes = test.check.rules.notes if test.check is not None else ()
            is_own = test.check is not None and test.check.options is not None
            status = LEFT_OUT if test.check is None else UNCHANGED if is_own and not notes else CHANGED
            how = () if test.check is None or is_own else ("it is SQL",)
            joint = test.joint if test.check is not None else None
            check = test.final if test.check is not None else None
            tests.append(Entry(test.name, test.place, status, joint, (*test.left_out, *how, *notes), check))
        return Report(*(tuple(sorted(each, key=_position)) for each in (models, tests, others)))


def _position(entry: Entry) -> tuple[str, int, str]:
    return entry.place.file, entry.place.line, entry.name


def _entry(draft: Draft, kind: str | None) -> Entry:
    node = draft.node
    name = node.versioned_name if isinstance(node, Node) else f"{node.source}.{node.name}"
    if draft.left_out:
        return Entry(name, draft.problem_place or draft.place, LEFT_OUT, None, tuple(draft.left_out), kind=kind)
    status = draft.status or (CHANGED if draft.reasons else UNCHANGED)
    return Entry(name, draft.place, status, draft.joint, tuple(draft.reasons), kind=kind)


def _other(other: Other) -> Entry:
    reasons = (other.reason or f"a {other.kind.replace('_', ' ')} has no counterpart",)
    return Entry(other.name, other.place, LEFT_OUT, reasons=reasons, kind=other.kind)


def _with_freshness(draft: Draft, table: SourceTable) -> Entry:
    """Give a source the check that its freshness becomes, and return what is told of it."""
    name = f"{table.source}.{table.name}"
    try:
        draft.freshness = freshness_check(table)
    except LeftOutError as error:
        return Entry(name, table.place, LEFT_OUT, reasons=(str(error),), kind="freshness")
    reason = f"it is a check that warns when the newest row is older than {draft.freshness['max_age']}"
    return Entry(name, table.place, CHANGED, draft.joint, (reason,), kind="freshness")


def _shown(test: DataTest, joint: str) -> str:
    return test.name or "_".join(part for part in (test.macro.replace(".", "_"), joint, test.column or "") if part)


def _wanted_name(check: Check, phase: str) -> str:
    if check.options is None or check.is_named:
        return check.name
    options = check.options
    columns = options["columns"] if "columns" in options else [options["column"]]
    return "_".join((*(["audit"] if phase == "audit" else []), str(options["type"]), *columns))
