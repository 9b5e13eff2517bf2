"""The difference of two plans: joints added, removed and changed, and columns whose loss breaks a reader.

Changes between two versions of a stored table: of logic, and of columns with their readers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from types import NoneType

from rivet_dagster.compiler.graph import topological
from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.errors import RivetError

OWN, UPSTREAM = "own", "upstream"
"""Why a joint changed: its own logic changed, or only that of an upstream joint."""

REMOVED, RETYPED = "removed", "retyped"

Read = tuple[str, str]
"""A joint and the name of one of its columns, in lower case, that another joint reads."""


@dataclass(frozen=True)
class ChangedJoint:
    """A joint of both plans with different rows; ``through`` are the direct upstream joints that changed its rows."""

    joint: str
    cause: str
    through: tuple[str, ...] = ()


@dataclass(frozen=True)
class BrokenColumn:
    """A column that was removed or has another type, and the joints that read it."""

    joint: str
    column: str
    change: str
    before: str | None
    after: str | None
    readers: tuple[str, ...]


@dataclass(frozen=True)
class PlanDiff:
    """The difference between an older plan and a newer one."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[ChangedJoint, ...] = ()
    breaking: tuple[BrokenColumn, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the plans give the same rows."""
        return self == PlanDiff()

    def to_json(self) -> str:
        """Return the difference as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def read_plan(text: str, path: str) -> CompiledAssembly:
    """Return the plan from text that ``to_json`` wrote. Raise RVT-113 for any other; ``path`` names the file."""
    try:
        plan = CompiledAssembly.from_json(text)
        if not _is_whole(plan):
            raise ValueError("it has another shape")
    except (RecursionError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RivetError("RVT-113", f"{path} holds no compiled plan: {error}", file=path) from error
    if not plan.success:
        raise RivetError("RVT-113", f"{path} holds a plan that did not compile", file=path)
    return plan


def _is_whole(plan: CompiledAssembly) -> bool:
    """Return whether the attributes that a comparison reads are present and of the right types."""
    if not isinstance(plan.joints, tuple) or not isinstance(plan.errors, tuple):
        return False
    return all(
        isinstance(joint, CompiledJoint)
        and isinstance(joint.name, str)
        and isinstance(joint.schema, tuple | NoneType)
        and all(isinstance(names, tuple) for names in (joint.upstream, joint.lineage))
        for joint in plan.joints
    )


def diff_plans(old: CompiledAssembly, new: CompiledAssembly) -> PlanDiff:
    """Return the difference of two plans, sorted by name."""
    before = {joint.name: joint for joint in old.joints}
    after = {joint.name: joint for joint in new.joints}
    return PlanDiff(
        added=tuple(sorted(set(after) - set(before))),
        removed=tuple(sorted(set(before) - set(after))),
        changed=_changed(before, after),
        breaking=_breaking(before, after),
    )


def column_readers(joints: Iterable[CompiledJoint]) -> dict[Read, set[str]]:
    """Return the joints that read a column of another one directly, by that column, as far as lineage is known."""
    readers: dict[Read, set[str]] = {}
    for joint in joints:
        for read in _reads(joint):
            readers.setdefault(read, set()).add(joint.name)
    return readers


def _changed(before: dict[str, CompiledJoint], after: dict[str, CompiledJoint]) -> tuple[ChangedJoint, ...]:
    altered = {name for name in after if name not in before}  # the readers of a new joint have other rows, too
    changes = []
    for name in topological({name: joint.upstream for name, joint in after.items()}):
        if name not in before:
            continue
        gone = set(before[name].upstream) - set(after)
        through = tuple(sorted(altered.intersection(after[name].upstream) | gone))
        logic = _logic(before[name]) != _logic(after[name])
        if logic or through:
            altered.add(name)
            changes.append(ChangedJoint(name, OWN if logic else UPSTREAM, through))
    return tuple(sorted(changes, key=lambda change: change.joint))


def _logic(joint: CompiledJoint) -> str:
    """Return what determines the joint's rows, apart from its upstream; for a source also what it reads."""
    table = (joint.catalog, joint.table, dict(joint.options), joint.landing) if isinstance(joint, SourceJoint) else ()
    return json.dumps((joint.code_version, table), sort_keys=True, default=str)


def _breaking(before: dict[str, CompiledJoint], after: dict[str, CompiledJoint]) -> tuple[BrokenColumn, ...]:
    """Return removed and retyped columns that a joint of the old plan reads, and may still read in the new plan."""
    readers: dict[Read, set[str]] = {}
    for joint in before.values():
        if joint.name in after:
            for read in _reads(joint) - _given_up(joint, after[joint.name]):
                readers.setdefault(read, set()).add(joint.name)
    broken = []
    for name in sorted(before):
        for column, change, kind, now in _lost(before[name], after.get(name)):
            reading = readers.get((name, column.lower()))
            if reading:
                broken.append(BrokenColumn(name, column, change, kind, now, tuple(sorted(reading))))
    return tuple(broken)


def _reads(joint: CompiledJoint) -> set[Read]:
    return {(origin.joint, origin.column.lower()) for entry in joint.lineage for origin in entry.upstream}


def _given_up(old: CompiledJoint, new: CompiledJoint) -> set[Read]:
    """Return the columns that only the old logic reads; empty if the logic is the same or the new lineage has gaps."""
    whole = new.schema is not None and len(new.lineage) == len(new.schema)
    return _reads(old) - _reads(new) if whole and _logic(old) != _logic(new) else set()


def _lost(old: CompiledJoint, new: CompiledJoint | None) -> list[tuple[str, str, str | None, str | None]]:
    """Return columns removed, and columns whose types are known and differ; empty where new columns are not known."""
    if old.schema is None or (new is not None and new.schema is None):
        return []
    now = {field.name.lower(): field.type for field in (new.schema if new is not None else None) or ()}
    lost: list[tuple[str, str, str | None, str | None]] = []
    for field in old.schema:
        kind = now.get(field.name.lower())
        if field.name.lower() not in now:
            lost.append((field.name, REMOVED, field.type, None))
        elif field.type and kind and field.type != kind:
            lost.append((field.name, RETYPED, field.type, kind))
    return lost


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
