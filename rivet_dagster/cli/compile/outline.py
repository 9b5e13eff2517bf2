"""The outline of a plan: waves, their groups, and lines about each group, for a tree and for plain text alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import NamedTuple

from rivet_dagster.cli.compile.reasons import Boundaries
from rivet_dagster.compiler.group_query import Incremental
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint, FusedGroup
from rivet_dagster.model.joint import PYTHON, SOURCE
from rivet_dagster.model.partitions import Partitions
from rivet_dagster.model.row_errors import ErrorTable
from rivet_dagster.model.schema import NONE, PARTIAL
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_strategy import write_text

Part = tuple[str, str]
"""Text and its style on a terminal, as rich writes styles."""

PLACE, REASON, DOUBT, ASIDE = "cyan", "italic", "yellow", "dim"

_WIDEST = 32
"""The length of a name up to which what follows it is aligned."""


class Line(NamedTuple):
    """A line about a group, under a ``key``; the key of a line that continues the one before is empty."""

    key: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Block:
    """A group, or a source that is read in place: its name, what follows the name, and its lines."""

    name: str
    note: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Section:
    """A wave and what runs in it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Outline:
    """A sentence about the whole plan, and its waves."""

    head: str
    sections: tuple[Section, ...]


def plan_outline(assembly: CompiledAssembly, names: Sequence[str] = ()) -> Outline:
    """Return the outline of a plan; with ``names``, only of the groups of those joints.

    In a wave the sources that are read in place come first.
    """
    shown = {assembly.joint(name).group for name in names} or set(assembly.execution_order)
    queries = sum(1 for group in assembly.fused_groups if assembly.joint(group.exit).type != SOURCE)
    head = (
        f"{_counted(len(assembly.joints), 'joint')} -> {_counted(queries, 'group')} "
        f"in {_counted(len(assembly.waves), 'wave')} "
        f"(profile '{assembly.profile}'); each group runs as one query"
    )
    boundaries = Boundaries(assembly)
    sections = []
    for number, wave in enumerate(assembly.waves, 1):
        groups = [assembly.group(name) for name in wave if name in shown]
        groups.sort(key=lambda group: group.target is not None)
        if groups:
            sections.append(Section(f"wave {number}", tuple(_block(assembly, group, boundaries) for group in groups)))
    return Outline(head, tuple(sections))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _block(assembly: CompiledAssembly, group: FusedGroup, boundaries: Boundaries) -> Block:
    exit_joint = assembly.joint(group.exit)
    if group.target is None:
        note = f"read in place, {exit_joint.catalog}.{exit_joint.table}, {_columns(exit_joint)[0]}"
        return Block(group.name, note, tuple(_of_source(exit_joint, boundaries)))
    lines = tuple(_of_group(assembly, group, group.target, boundaries))
    return Block(group.name, f"on {group.engine}", lines)


def _of_source(source: CompiledJoint, boundaries: Boundaries) -> Iterator[Line]:
    yield from _partitions(source.partitions)
    yield from _gate(source)
    yield Line("alone", ((boundaries.reason(source.name), REASON),))


def _of_group(assembly: CompiledAssembly, group: FusedGroup, target: Target, boundaries: Boundaries) -> Iterator[Line]:
    exit_joint = assembly.joint(group.exit)
    joints = [assembly.joint(name) for name in group.joints]
    yield from _partitions(exit_joint.partitions)
    yield from _joints(joints, assembly, group, boundaries)
    later = [_incremental(cte.joint, cte.incremental) for cte in group.ctes if cte.incremental is not None]
    if later:
        yield Line("later", ((f"incremental: {', '.join(later)}", ""),))
    yield from _gate(exit_joint)
    for name in group.judged_with:
        yield Line("", (("its checks read ", ASIDE), *_boundary(assembly, name, group, boundaries)))
    yield Line("writes", tuple(_writes(assembly, target, group)))
    for text in _defaults(joints):
        yield Line("default", ((text, ""),))
    if target.errors is not None:
        yield Line("errors", tuple(_errors(target.catalog, target.errors)))
    if target.with_run:
        how = f"all of '{target.catalog}' in one commit" if target.one_commit else "one after another"
        yield Line("readers", ((f"see it when the last step of the run publishes all tables, {how}", ""),))
    if target.declared and not target.keeps_versions:
        yield Line("versions", ((f"'{target.catalog}' keeps the current one alone: no rollback", ""),))
    yield Line("ends", ((boundaries.reason(group.exit), REASON),))


def _joints(
    joints: Sequence[CompiledJoint], assembly: CompiledAssembly, group: FusedGroup, boundaries: Boundaries
) -> list[Line]:
    """Return a line for each joint, and one for each joint of another group that it reads, with the reason for that."""
    longest = max([len(joint.name) for joint in joints if len(joint.name) <= _WIDEST], default=0)
    lines: list[Line] = []
    key = "calls" if joints[-1].type == PYTHON else "fuses" if len(joints) > 1 else "runs"
    for joint in joints:
        what = f"source {joint.catalog}.{joint.table}" if joint.type == SOURCE else joint.type
        lines.append(Line(key, ((joint.name.ljust(longest), "bold"), (f"  {what}, ", ASIDE), _columns(joint))))
        key = ""
        for name in joint.upstream:
            if name not in group.joints:
                lines.append(Line("", (("  reads ", ASIDE), *_boundary(assembly, name, group, boundaries))))
    return lines


def _boundary(assembly: CompiledAssembly, name: str, group: FusedGroup, boundaries: Boundaries) -> tuple[Part, ...]:
    reason = f": {boundaries.reason(assembly.joint(name).group)}", REASON
    crossing = boundaries.crossing(name, group.name)
    return ((name, "bold"), (f" {crossing}", ""), reason) if crossing else ((name, "bold"), reason)


def _gate(joint: CompiledJoint) -> Iterator[Line]:
    if not joint.checks:
        return
    parts: list[Part] = []
    for check in joint.checks:
        parts += [(", ", "")] if parts else []
        parts += [(check.name, "")] if check.blocking else [(check.name, ""), (" (warns)", DOUBT)]
    yield Line("gate", tuple(parts))


def _writes(assembly: CompiledAssembly, target: Target, group: FusedGroup) -> Iterator[Part]:
    yield f"{target.catalog}.{target.table}", PLACE
    yield f"  ({write_text(target.write)})", ASIDE
    if target.retention == "run":
        readers = next((stored.evict_after for stored in assembly.materializations if stored.joint == group.exit), ())
        yield f", removed after {', '.join(readers) or 'the run'}", ""


def _errors(catalog: str, errors: ErrorTable) -> Iterator[Part]:
    yield f"{catalog}.{errors.table}", PLACE
    if errors.max_age is not None:
        yield f"  (for {errors.max_age} day{'' if errors.max_age == 1 else 's'})", ASIDE


def _columns(joint: CompiledJoint) -> Part:
    """Return the number of columns of a joint, and how well they are known."""
    count = len(joint.schema or ())
    known = f"{count} column{'' if count == 1 else 's'}" if joint.schema is not None else "columns not known"
    confidence = "" if joint.schema_confidence == NONE else f" ({joint.schema_confidence})"
    return known + confidence, DOUBT if joint.schema_confidence in (NONE, PARTIAL) else ASIDE


def _partitions(partitions: Partitions | None) -> Iterator[Line]:
    if partitions is not None:
        yield Line("parts", ((f"{partitions} by {partitions.column}", ""),))


def _defaults(joints: Sequence[CompiledJoint]) -> list[str]:
    """Return which keys of a group's joints come from rivet.yaml, a text for each place."""
    locations: dict[str, list[str]] = {}
    for joint in joints:
        for key, location in joint.defaults.items():
            locations.setdefault(f"{key} from {location}", []).append(joint.name)
    return [f"{text}: {', '.join(names)}" for text, names in locations.items()]


def _incremental(joint: str, later: Incremental) -> str:
    """Return the name of a joint that reads less from the second run on, and what limits its rows."""
    uses = ["watermark"] * later.watermark + ["rows"] * later.this
    return f"{joint} (by the {' and '.join(uses)} of {later.sink})" if uses else joint


KEY_WIDTH = 8
_GROUP, _LINE = 2, 4
_INDENT = " " * _LINE
_LEAST = 24
"""The least columns for text: on a narrower terminal lines are longer than it is wide."""


def plan_text(assembly: CompiledAssembly, names: Sequence[str] = (), width: int | None = None) -> str:
    """Return the plan as text; with ``names``, only the groups of those joints.

    Lines are broken at ``width``, and never without one: then each key of a group is one line.
    """
    outline = plan_outline(assembly, names)
    lines = _broken(outline.head, 0, width)
    for section in outline.sections:
        lines += ["", section.title]
        for block in section.blocks:
            lines += _broken(f"{block.name}  {block.note}", _GROUP, width)
            for line in block.lines:
                lines += _of_line(line, width)
    return "\n".join(lines)


def _of_line(line: Line, width: int | None) -> list[str]:
    text = "".join([text for text, _ in line.parts])
    if width is None:
        return [f"{_INDENT}{line.key:<{KEY_WIDTH}}{text}"]
    broken = _broken(text, 0, width - _LINE - KEY_WIDTH)
    return [f"{_INDENT}{'' if number else line.key:<{KEY_WIDTH}}{part}" for number, part in enumerate(broken)]


def _broken(text: str, indent: int, width: int | None) -> list[str]:
    before = " " * indent
    if width is None or len(text) <= width - indent:
        return [before + text]
    lines = wrap(text, max(width - indent, _LEAST), break_long_words=False, break_on_hyphens=False)
    return [before + line for line in lines]
