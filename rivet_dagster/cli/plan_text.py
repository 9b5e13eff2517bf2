"""Rendering of the plan as text: the waves, and for each group what it reads, computes, checks and writes."""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.compiler.group_query import Incremental
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.partitions import Partitions

REASONS = {
    "eager": "declared eager",
    "python_boundary": "next to Python",
    "assertion_boundary": "it has checks",
    "multi_consumer": "read by several joints",
    "non_deterministic": "read twice, and not the same each time",
    "engine_change": "read by another engine",
    "partition_boundary": "its reader has other partitions",
    "error_boundary": "its reader has another `on_error`",
    "depth": "the query would nest too deeply",
}


def plan_text(assembly: CompiledAssembly, names: Sequence[str] = ()) -> str:
    """Return the plan as text; with ``names``, only the groups of those joints."""
    shown = {assembly.joint(name).group for name in names} or set(assembly.execution_order)
    groups = [group for group in assembly.fused_groups if group.name in shown]
    queries = sum(1 for g in assembly.fused_groups if assembly.joint(g.exit).type != SOURCE)
    lines = [
        f"{len(assembly.joints)} joints -> {queries} groups in {len(assembly.waves)} waves "
        f"(profile '{assembly.profile}'); each group runs as one query",
        "",
    ]
    by_name = {group.name: group for group in groups}
    reasons = {stored.joint: REASONS[stored.reason] for stored in assembly.materializations}
    sources = [group for group in groups if assembly.joint(group.exit).type == SOURCE]
    if sources:
        lines.append("shared sources, read in place")
        lines += [f"  {group.name}  {_place(assembly, group.exit)}{_of_source(assembly, group)}" for group in sources]
        lines.append("")
    for number, wave in enumerate(assembly.waves, 1):
        running = [by_name[name] for name in wave if name in by_name and by_name[name].target is not None]
        if running:
            lines.append(f"wave {number}")
            for group in running:
                lines += _group(assembly, group, reasons.get(group.exit))
            lines.append("")
    return "\n".join(lines).rstrip()


def _group(assembly: CompiledAssembly, group: FusedGroup, reason: str | None) -> list[str]:
    """Return the lines of a group; ``reason`` is why its rows are stored, None for a sink."""
    exit_joint = assembly.joint(group.exit)
    lines = [f"  {group.name}  on {group.engine}"]
    if exit_joint.partitions:
        lines.append(f"    parts   {_parts(exit_joint.partitions)}")
    if group.inputs:
        lines.append(f"    reads   {', '.join(group.inputs)}")
    lines.append(f"    {'calls ' if exit_joint.type == 'python' else 'fuses '}  {' -> '.join(group.joints)}")
    later = [_incremental(cte.joint, cte.incremental) for cte in group.ctes if cte.incremental is not None]
    if later:
        lines.append(f"    later   incremental: {', '.join(later)}")
    if exit_joint.checks:
        verdicts = [check.name + ("" if check.blocking else " (warns)") for check in exit_joint.checks]
        others = f"  (with {', '.join(group.judged_with)})" if group.judged_with else ""
        lines.append(f"    gate    {', '.join(verdicts)}{others}")
    why = f"  ({reason})" if reason is not None else ""
    lines.append(f"    writes  {_place(assembly, group.exit)}{why}")
    lines += [f"    default {text}" for text in _defaults(assembly, group)]
    if group.target is not None and group.target.errors is not None:
        lines.append(f"    errors  {group.target.catalog}.{group.target.errors.table}")
    if group.target is not None and group.target.with_run:
        how = f"all of '{group.target.catalog}' in one commit" if group.target.one_commit else "one after another"
        lines.append(f"    readers see it when the last step of the run publishes all tables, {how}")
    return lines


def _defaults(assembly: CompiledAssembly, group: FusedGroup) -> list[str]:
    """Return which keys of the group's joints come from rivet.yaml, a text for each place."""
    found: dict[str, list[str]] = {}
    for name in group.joints:
        for key, place in assembly.joint(name).defaults.items():
            found.setdefault(f"{key} from {place}", []).append(name)
    return [f"{text}: {', '.join(names)}" for text, names in found.items()]


def _of_source(assembly: CompiledAssembly, group: FusedGroup) -> str:
    partitions = assembly.joint(group.exit).partitions
    return f"  ({_parts(partitions)})" if partitions else ""


def _parts(partitions: Partitions) -> str:
    return f"{partitions} by {partitions.column}"


def _incremental(joint: str, later: Incremental) -> str:
    """Return the name of a joint that reads less from the second run on, and what limits its rows."""
    uses = ["watermark"] * later.watermark + ["rows"] * later.this
    return f"{joint} (by the {' and '.join(uses)} of {later.sink})" if uses else joint


def _place(assembly: CompiledAssembly, name: str) -> str:
    joint = assembly.joint(name)
    return f"{joint.catalog}.{joint.table}"
