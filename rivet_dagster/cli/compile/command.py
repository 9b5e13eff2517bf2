"""``rivet-dagster compile``: the plan as text, as a Mermaid flowchart or JSON, or its difference from another plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rivet_dagster.cli.compile.outline import ASIDE, KEY_WIDTH, Block, plan_outline, plan_text
from rivet_dagster.cli.compile.reasons import REASONS
from rivet_dagster.cli.compiled import compile_for_command
from rivet_dagster.cli.console import (
    has_colors,
    print_plain,
    reserve_stdout,
    show,
    show_changes,
    show_diagnostics,
    terminal_width,
)
from rivet_dagster.compiler.diff import OWN, REMOVED, BrokenColumn, ChangedJoint, PlanDiff
from rivet_dagster.compiler.joints import QueryJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.joint import PYTHON, SOURCE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rivet_dagster.compiler.selections import SelectableAsset


_MOST_IN_TREE = 1_000
"""The joints of a plan up to which a tree is drawn: rich needs two seconds for these."""


def compiled_plan(
    root: Path, profile: str | None, introspect: bool, analyze: bool, engine: str | None = None
) -> CompiledAssembly:
    """Return the plan of a project, on its engines or on ``engine``; with ``analyze`` they have judged all queries."""
    # On another engine joints have other kinds than those for which the selections of rivet.yaml are written.
    select = _select_with_dagster if engine is None else None
    assembly = compile_for_command(root, profile, introspect=introspect or analyze, engine=engine, select=select)
    if not ((introspect or analyze) and assembly.success):
        return assembly
    from rivet_dagster.execution.runtime import Runtime
    from rivet_dagster.execution.target_columns import check_targets

    runtime = Runtime(assembly, root.resolve())
    if analyze:
        from rivet_dagster.execution.analysis import analyze_plan

        with reserve_stdout():
            assembly = analyze_plan(assembly, runtime)
    return check_targets(assembly, runtime) if assembly.success else assembly


def _select_with_dagster(assets: Sequence[SelectableAsset], texts: Sequence[str]) -> Sequence[Sequence[str] | str]:
    # Imported only here: Dagster takes longer to import than a project to compile, and its answers are cached.
    from rivet_dagster.definitions.specs.selection import select_joints

    return select_joints(assets, texts)


def show_plan(assembly: CompiledAssembly, joints: Sequence[str], format: str) -> int:
    """Print a plan. Return 1 where the project does not compile, 10 where only its configuration is wrong."""
    if assembly.success:
        _check_names(joints, assembly)
    if format == "json":
        sys.stdout.writelines([_filtered(assembly, joints)] if joints else assembly.json_parts())
        return 0 if assembly.success else RivetError.of(assembly.errors).exit_code
    show_diagnostics(assembly.warnings, "warning: ", "bold yellow")
    assembly.raise_errors()
    if format == "mermaid":
        print(plan_mermaid(assembly, joints))
    else:
        _show_visual(assembly, joints)
    return 0


def _show_visual(assembly: CompiledAssembly, joints: Sequence[str]) -> None:
    if has_colors(sys.stdout) and len(assembly.joints) <= _MOST_IN_TREE:
        show(plan_tree(assembly, joints))
    else:
        print_plain(plan_text(assembly, joints, terminal_width(sys.stdout)))


def plan_tree(assembly: CompiledAssembly, names: Sequence[str] = ()) -> RenderableType:
    """Return the plan as trees, one for each wave; with ``names``, only the groups of those joints."""
    # Imported only here: rich takes longer to import than a small plan to compile.
    from rich.console import Group
    from rich.text import Text
    from rich.tree import Tree

    outline = plan_outline(assembly, names)
    shown: list[RenderableType] = [Text(outline.head)]
    for section in outline.sections:
        tree = Tree(Text(section.title, "bold cyan"), guide_style=ASIDE)
        for block in section.blocks:
            tree.add(_block(block))
        shown += [Text(), tree]
    return Group(*shown)


def _block(block: Block) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    lines = Table.grid()
    lines.add_column(width=KEY_WIDTH, no_wrap=True)
    lines.add_column(overflow="fold")
    for line in block.lines:
        lines.add_row(Text(line.key, ASIDE), Text.assemble(*line.parts))
    return Group(Text.assemble((block.name, "bold green"), (f"  {block.note}", ASIDE)), lines)


def compare_plans(assembly: CompiledAssembly, joints: Sequence[str], format: str, old: str) -> int:
    """Print the difference of a plan from that in the file ``old``. Raises RVT-110, RVT-113."""
    from rivet_dagster.compiler.diff import diff_plans, read_plan

    assembly.raise_errors()
    if joints or format == "mermaid":
        raise RivetError("RVT-110", "--diff compares whole plans, as text or with --format json")
    try:
        text = Path(old).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RivetError("RVT-113", f"{old} cannot be read: {error}", file=old) from error
    diff = diff_plans(read_plan(text, old), assembly)
    if format == "json":
        print(diff.to_json(), end="")
    else:
        show_changes(diff_text(diff))
    return 0


def _check_names(names: Sequence[str], assembly: CompiledAssembly) -> None:
    known = [joint.name for joint in assembly.joints]
    for name in names:
        if name not in known:
            raise RivetError("RVT-306", f"no joint is named '{name}'{nearest(name, known)}")


def _filtered(assembly: CompiledAssembly, names: Sequence[str]) -> str:
    """Return the plan as JSON whose lists hold only the joints of these names, and their groups."""
    plan = json.loads(assembly.to_json())
    plan["joints"] = [joint for joint in plan["joints"] if joint["name"] in names]
    groups = {joint["group"] for joint in plan["joints"]}
    plan["fused_groups"] = [group for group in plan["fused_groups"] if group["name"] in groups]
    return json.dumps(plan, indent=2, ensure_ascii=False) + "\n"


def diff_text(diff: PlanDiff) -> str:
    """Return a line for each joint added, removed or changed, and for each change of a column that breaks readers.

    >>> print(diff_text(PlanDiff(added=("b",), changed=(ChangedJoint("c", "upstream", ("b",)),))))
    + b
    ~ c  (through b)
    >>> print(diff_text(PlanDiff()))
    no difference
    """
    lines = [f"+ {name}" for name in diff.added] + [f"- {name}" for name in diff.removed]
    lines += [_changed(change) for change in diff.changed]
    lines += [_broken(column) for column in diff.breaking]
    return "\n".join(lines) or "no difference"


def _changed(change: ChangedJoint) -> str:
    causes = ["its own logic"] if change.cause == OWN else []
    causes += [f"through {', '.join(change.through)}"] if change.through else []
    return f"~ {change.joint}  ({', '.join(causes)})"


def _broken(column: BrokenColumn) -> str:
    change = "is gone" if column.change == REMOVED else f"is {column.after}, was {column.before}"
    return f"! {column.joint}.{column.column} {change}: read by {', '.join(column.readers)}"


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
