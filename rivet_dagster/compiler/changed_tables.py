"""Changes between two versions of a stored table: of logic, and of columns with their readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rivet_dagster.compiler.diff import OWN, RETYPED, UPSTREAM, column_readers
from rivet_dagster.compiler.plan import CompiledAssembly

NONE = "none"
"""Why a table changed, beside ``own`` and ``upstream``: neither its joint's logic nor that of a joint before it did."""

ADDED, DROPPED = "added", "dropped"

CodeVersions = Mapping[str, str]
"""The code versions of the joints that computed the rows of one table, and of the joints that these read, by name."""

Columns = Iterable[tuple[str, str]]
"""Pairs of name and engine type, in order."""


@dataclass(frozen=True)
class ColumnChange:
    """A column that was added, dropped or retyped, and the joints that read it and may break.

    ``before`` and ``after`` are its types, None where there is no such column.
    """

    column: str
    change: str
    before: str | None
    after: str | None
    breaks: tuple[str, ...] = ()


def changed_logic(
    joint: str, before: CodeVersions, after: CodeVersions, matches: Callable[[str, CodeVersions], bool]
) -> str:
    """Return why a stored joint changed between two versions of its table: ``own``, ``upstream`` or ``none``.

    ``matches`` returns whether a joint's rows were computed by the logic of the plan, whichever way its joints were
    fused. A joint whose code version was not known before counts as changed.
    """
    if joint not in before or before[joint] != after.get(joint):
        return OWN
    if before == after or (matches(joint, before) and matches(joint, after)):
        return NONE
    return UPSTREAM


def changed_columns(plan: CompiledAssembly, joint: str, before: Columns, after: Columns) -> tuple[ColumnChange, ...]:
    """Return the columns of a joint that were dropped or retyped, with the joints that read them, then those added.

    Columns are matched by name, ignoring case. The readers are those of the plan, directly, as far as the lineage of
    its columns is known.
    """
    old = {name.lower(): (name, kind) for name, kind in before}
    new = {name.lower(): (name, kind) for name, kind in after}
    readers = column_readers(plan.joints)

    def read(column: str) -> tuple[str, ...]:
        return tuple(sorted(readers.get((joint, column), ())))

    lost = []
    for column, (name, kind) in old.items():
        if column not in new:
            lost.append(ColumnChange(name, DROPPED, kind, None, read(column)))
        elif new[column][1] != kind:
            lost.append(ColumnChange(new[column][0], RETYPED, kind, new[column][1], read(column)))
    added = [ColumnChange(name, ADDED, None, kind) for column, (name, kind) in new.items() if column not in old]
    return (*lost, *added)
