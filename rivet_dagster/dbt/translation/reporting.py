"""The report of a translation."""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.dbt.declared import MODEL, SEED, SNAPSHOT, DbtProject, Node, Other, SourceTable
from rivet_dagster.dbt.macros.scope import MacroScope
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, UNCHANGED, Entry, Report
from rivet_dagster.dbt.template import TEST as TEST_BLOCK
from rivet_dagster.dbt.translation.data_tests import MovedTest
from rivet_dagster.dbt.translation.draft import Draft


def report_of(
    project: DbtProject, scope: MacroScope, drafts: Sequence[Draft], told: Sequence[Entry], moved: Sequence[MovedTest]
) -> Report:
    """Return the report of all ``drafts``, those that are left out among them; ``told`` are other things."""
    models = [_entry(d, None) for d in drafts if isinstance(d.node, Node) and d.node.kind == MODEL]
    others = [_entry(d, d.node.kind) for d in drafts if isinstance(d.node, Node) and d.node.kind in (SEED, SNAPSHOT)]
    others += [_entry(d, "source") for d in drafts if isinstance(d.node, SourceTable)]
    others += told
    for package in project.packages:
        others += [_other(other) for other in (*package.others, *package.problems)]
    others += [
        Entry(macro.name, macro.place, LEFT_OUT, reasons=(f"the macro is there already, {first.place}",), kind="macro")
        for macro, first in scope.repeated
    ]
    others += [
        Entry(macro.name, macro.place, UNCHANGED, reasons=("its SQL is that of the checks",), kind="generic_test")
        for macro in project.root.macros
        if macro.block.kind == TEST_BLOCK
    ]
    tests = [_test(test) for test in moved]
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


def _test(test: MovedTest) -> Entry:
    notes = test.check.rules.notes if test.check is not None else ()
    is_own = test.check is not None and test.check.options is not None
    status = LEFT_OUT if test.check is None else UNCHANGED if is_own and not notes else CHANGED
    how = () if test.check is None or is_own else ("it is SQL",)
    joint = test.joint if test.check is not None else None
    check = test.final if test.check is not None else None
    return Entry(test.name, test.place, status, joint, (*test.left_out, *how, *notes), check)


def _other(other: Other) -> Entry:
    reasons = (other.reason or f"a {other.kind.replace('_', ' ')} has no counterpart",)
    return Entry(other.name, other.place, LEFT_OUT, reasons=reasons, kind=other.kind)
