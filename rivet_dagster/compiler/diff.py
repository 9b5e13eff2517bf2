"""What differs between two plans: joints added, removed and changed, and columns whose loss breaks a reader."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from types import NoneType

from rivet_dagster.compiler.graph import topological
from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.errors import RivetError

OWN, UPSTREAM = "own", "upstream"
"""Why a joint changed: its own logic did, or only that of a joint before it."""

REMOVED, RETYPED = "removed", "retyped"

Read = tuple[str, str]
"""A joint, and a column of it in lower case, that another joint reads."""


@dataclass(frozen=True)
class ChangedJoint:
    """A joint of both plans that gives other rows; ``through`` are the direct upstream joints it changed through."""

    joint: str
    cause: str
    through: tuple[str, ...] = ()


@dataclass(frozen=True)
class BrokenColumn:
    """A column that is gone or of another type, and the joints that read it."""

    joint: str
    column: str
    change: str
    before: str | None
    after: str | None
    readers: tuple[str, ...]


@dataclass(frozen=True)
class PlanDiff:
    """The difference from an older plan to a newer."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[ChangedJoint, ...] = ()
    breaking: tuple[BrokenColumn, ...] = ()

    @property
    def empty(self) -> bool:
        """Return whether the plans give the same rows."""
        return self == PlanDiff()

    def to_json(self) -> str:
        """The difference as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def read_plan(text: str, place: str) -> CompiledAssembly:
    """The plan of a text that ``to_json`` wrote; RVT-113 for any other. ``place`` names the file."""
    try:
        plan = CompiledAssembly.from_json(text)
        if not _is_whole(plan):
            raise ValueError("it has another shape")
    except (RecursionError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RivetError("RVT-113", f"{place} holds no compiled plan: {error}", file=place) from error
    if not plan.success:
        raise RivetError("RVT-113", f"{place} holds a plan that did not compile", file=place)
    return plan


def _is_whole(plan: CompiledAssembly) -> bool:
    """Return whether what a comparison reads is there, and of its type."""
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
    """What differs, in the order of names."""
    before = {joint.name: joint for joint in old.joints}
    after = {joint.name: joint for joint in new.joints}
    return PlanDiff(
        added=tuple(sorted(set(after) - set(before))),
        removed=tuple(sorted(set(before) - set(after))),
        changed=_changed(before, after),
        breaking=_breaking(before, after),
    )


def _changed(before: dict[str, CompiledJoint], after: dict[str, CompiledJoint]) -> tuple[ChangedJoint, ...]:
    other = {name for name in after if name not in before}  # a joint that is new gives other rows, too
    found = []
    for name in topological({name: joint.upstream for name, joint in after.items()}):
        if name not in before:
            continue
        gone = set(before[name].upstream) - set(after)
        through = tuple(sorted(other.intersection(after[name].upstream) | gone))
        own = _logic(before[name]) != _logic(after[name])
        if own or through:
            other.add(name)
            found.append(ChangedJoint(name, OWN if own else UPSTREAM, through))
    return tuple(sorted(found, key=lambda change: change.joint))


def _logic(joint: CompiledJoint) -> str:
    """What changes the joint's rows without a joint before it changing; of a source also what it reads."""
    place = (joint.catalog, joint.table, dict(joint.options), joint.landing) if isinstance(joint, SourceJoint) else ()
    return json.dumps((joint.code_version, place), sort_keys=True, default=str)


def _breaking(before: dict[str, CompiledJoint], after: dict[str, CompiledJoint]) -> tuple[BrokenColumn, ...]:
    """Lost and retyped columns that a joint of the old plan reads, unless it is seen to read them no longer."""
    readers: dict[Read, set[str]] = {}
    for joint in before.values():
        if joint.name in after:
            for read in _reads(joint) - _given_up(joint, after[joint.name]):
                readers.setdefault(read, set()).add(joint.name)
    found = []
    for name in sorted(before):
        for column, change, kind, now in _lost(before[name], after.get(name)):
            reading = readers.get((name, column.lower()))
            if reading:
                found.append(BrokenColumn(name, column, change, kind, now, tuple(sorted(reading))))
    return tuple(found)


def _reads(joint: CompiledJoint) -> set[Read]:
    return {(one.joint, one.column.lower()) for entry in joint.lineage for one in entry.upstream}


def _given_up(old: CompiledJoint, new: CompiledJoint) -> set[Read]:
    """What only the old logic reads; nothing where the new one is the same or its lineage has gaps."""
    whole = new.schema is not None and len(new.lineage) == len(new.schema)
    return _reads(old) - _reads(new) if whole and _logic(old) != _logic(new) else set()


def _lost(old: CompiledJoint, new: CompiledJoint | None) -> list[tuple[str, str, str | None, str | None]]:
    """Columns gone, and columns whose types are known and differ; nothing where the new columns are not known."""
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
