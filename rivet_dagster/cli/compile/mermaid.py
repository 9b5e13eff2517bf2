"""Rendering of the plan as a Mermaid flowchart, for GitHub and the docs."""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.cli.compile.reasons import REASONS
from rivet_dagster.compiler.joints import QueryJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.model.joint import PYTHON, SOURCE

_SHAPES = {SOURCE: ("[(", ")]"), PYTHON: ("{{", "}}")}
_PUBLISHED = "[[", "]]"
_STYLES = (
    "classDef source fill:#e8f1fb,stroke:#3b76b8,color:#123",
    "classDef sql fill:#ffffff,stroke:#888888,color:#123",
    "classDef python fill:#fdf5d8,stroke:#b8922b,color:#123",
    "classDef sink fill:#e5f5ea,stroke:#2f8a50,color:#123",
)


def plan_mermaid(assembly: CompiledAssembly, names: Sequence[str] = ()) -> str:
    """Return the flowchart: a box for each fused group, a cylinder for each source, thick arrows for stored joints.

    Dotted arrows lead from joints that only checks read. With ``names``, only the groups of those joints and the joints
    that these read.
    """
    chosen = {assembly.joint(name).group for name in names} or set(assembly.execution_order)
    groups = [group for group in assembly.fused_groups if group.name in chosen]
    inside = {name for group in groups for name in group.joints}
    ids = {joint.name: f"j{number}" for number, joint in enumerate(assembly.joints)}
    boundary = sorted({name for group in groups for name in group.before} - inside)
    lines = ["flowchart LR"]
    lines += [f"  {_node(assembly, name, ids)}" for name in boundary]
    for number, group in enumerate(groups):
        if len(group.joints) == 1:
            lines.append(f"  {_node(assembly, group.exit, ids)}")
            continue
        lines.append(f'  subgraph g{number}["{_text(f"{group.name} on {group.engine}")}"]')
        lines += [f"    {_node(assembly, name, ids)}" for name in group.joints]
        lines.append("  end")
    for group in groups:
        for name in group.joints:
            lines += [f"  {_edge(assembly, upstream, name, ids)}" for upstream in assembly.joint(name).upstream]
        lines += [f"  {ids[name]} -.->|checks| {ids[group.exit]}" for name in group.judged_with]
    return "\n".join([*lines, *(f"  {style}" for style in _STYLES)])


def _node(assembly: CompiledAssembly, name: str, ids: dict[str, str]) -> str:
    joint, target = assembly.joint(name), assembly.target(name)
    publishes = target is not None and target.declared
    left, right = _SHAPES.get(joint.type, _PUBLISHED if publishes else ("[", "]"))
    table = f"{joint.catalog}.{joint.table}" if joint.type == SOURCE or publishes else ""
    parts = f"{joint.partitions.type} by {joint.partitions.column}" if joint.partitions else ""
    gate = f"{len(joint.checks)} check{'s' if len(joint.checks) > 1 else ''}" if joint.checks else ""
    later = "incremental" if isinstance(joint, QueryJoint) and joint.sql_incremental is not None else ""
    label = "<br/>".join(_text(line) for line in (joint.name, table, parts, later, gate) if line)
    return f'{ids[joint.name]}{left}"{label}"{right}:::{joint.type}'


def _edge(assembly: CompiledAssembly, name: str, reader: str, ids: dict[str, str]) -> str:
    """Return the arrow to a reader: thick, with the reason, where its group reads the stored rows of another group."""
    stored = next(
        (m for m in _stored(assembly, name) if assembly.joint(reader).group != assembly.joint(name).group), ""
    )
    arrow = f'==>|"{_text(stored)}"|' if stored else "-->"
    return f"{ids[name]} {arrow} {ids[reader]}"


def _stored(assembly: CompiledAssembly, name: str) -> list[str]:
    return [f"stored: {REASONS.get(m.reason, m.reason)}" for m in assembly.materializations if m.joint == name]


def _text(text: str) -> str:
    """Escape text for a quoted label: characters that would end or format it become Mermaid's entities.

    >>> _text('a "b" <c> #1')
    'a #quot;b#quot; #lt;c#gt; #35;1'
    """
    for character, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("`", "#96;"), ("\n", " ")):
        text = text.replace(character, entity)
    return text
