"""``rivet-dagster lineage``: where a joint or a column comes from, and what is made of it."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from rich.tree import Tree

from rivet_dagster.cli.compiled import compiled
from rivet_dagster.cli.console import show
from rivet_dagster.cli.lineage_tree import Node, column_tree, joint_tree


def show_lineage(root: Path, profile: str | None, name: str, downstream: bool) -> int:
    """Print the tree of ``JOINT`` or ``JOINT.COLUMN``."""
    assembly = compiled(root, profile, recall=True).raise_errors()
    joint, dot, column = name.partition(".")
    found = column_tree(assembly, joint, column, downstream) if dot else joint_tree(assembly, joint, downstream)
    show(_rendered(found))
    return 0


def _rendered(node: Node) -> Tree:
    tree = Tree(_label(node))
    for child in node.children:
        _add(tree, child)
    return tree


def _add(tree: Tree, node: Node) -> None:
    branch = tree.add(_label(node))
    for child in node.children:
        _add(branch, child)


def _label(node: Node) -> Text:
    return Text.assemble(node.label, (f"  {node.note}" if node.note else "", "dim"))
