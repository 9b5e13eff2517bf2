"""Rendering of the plan as a tree, for terminals with colours."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from rivet_dagster.cli.compile.outline import ASIDE, KEY_WIDTH, Block, plan_outline
from rivet_dagster.compiler.plan import CompiledAssembly


def plan_tree(assembly: CompiledAssembly, names: Sequence[str] = ()) -> RenderableType:
    """Return the plan as trees, one for each wave; with ``names``, only the groups of those joints."""
    outline = plan_outline(assembly, names)
    shown: list[RenderableType] = [Text(outline.head)]
    for section in outline.sections:
        tree = Tree(Text(section.title, "bold cyan"), guide_style=ASIDE)
        for block in section.blocks:
            tree.add(_block(block))
        shown += [Text(), tree]
    return Group(*shown)


def _block(block: Block) -> RenderableType:
    lines = Table.grid()
    lines.add_column(width=KEY_WIDTH, no_wrap=True)
    lines.add_column(overflow="fold")
    for line in block.lines:
        lines.add_row(Text(line.key, ASIDE), Text.assemble(*line.parts))
    return Group(Text.assemble((block.name, "bold green"), (f"  {block.note}", ASIDE)), lines)
