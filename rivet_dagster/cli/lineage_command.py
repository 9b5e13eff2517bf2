"""``rivet-dagster lineage``: trees of where a joint or a column comes from, and of what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rich.text import Text
from rich.tree import Tree

from rivet_dagster.cli.compiled import compile_for_command
from rivet_dagster.cli.console import show
from rivet_dagster.compiler.joints import ColumnReference
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.joint import SOURCE


def show_lineage(root: Path, profile: str | None, name: str, downstream: bool) -> int:
    """Print the tree of ``JOINT`` or ``JOINT.COLUMN``."""
    assembly = compile_for_command(root, profile, recall=True).raise_errors()
    joint, dot, column = name.partition(".")
    tree = column_tree(assembly, joint, column, downstream) if dot else joint_tree(assembly, joint, downstream)
    show(_rendered(tree))
    return 0


def _rendered(node: TreeNode) -> Tree:
    tree = Tree(_label(node))
    for child in node.children:
        _add(tree, child)
    return tree


def _add(tree: Tree, node: TreeNode) -> None:
    branch = tree.add(_label(node))
    for child in node.children:
        _add(branch, child)


def _label(node: TreeNode) -> Text:
    return Text.assemble(node.label, (f"  {node.note}" if node.note else "", "dim"))


T = TypeVar("T")

AGAIN, UNCERTAIN, CONSTANT = "see above", "from what is not certain", "from no column"


@dataclass(frozen=True)
class TreeNode:
    """A joint or a column, and a ``note`` about it, empty without one."""

    label: str
    note: str = ""
    children: tuple[TreeNode, ...] = ()


def joint_tree(assembly: CompiledAssembly, name: str, downstream: bool) -> TreeNode:
    """Return the tree of the joints that a joint reads, or of those that read it. Raises RVT-306."""
    _joint(assembly, name)
    following = assembly.consumers if downstream else lambda each: assembly.joint(each).upstream

    def leaf(each: str) -> TreeNode:
        joint = assembly.joint(each)
        return TreeNode(each, joint.type if joint.catalog is None else f"{joint.type}, {joint.catalog}.{joint.table}")

    return _tree(name, following, leaf)


def column_tree(assembly: CompiledAssembly, name: str, column: str, downstream: bool) -> TreeNode:
    """Return the tree of the columns that a column is computed from, or of those computed from it. Raises RVT-306.

    Columns that only filter, join or group rows are left out.
    """
    start = ColumnReference(name, _column(_joint(assembly, name), column))

    def before(reference: ColumnReference) -> tuple[ColumnReference, ...]:
        origins = _lineage(assembly, reference)
        return origins if origins is not None else ()

    def after(reference: ColumnReference) -> tuple[ColumnReference, ...]:
        return tuple(
            ColumnReference(reader, lineage.column)
            for reader in assembly.consumers(reference.joint)
            for lineage in assembly.joint(reader).lineage
            if reference in lineage.upstream
        )

    def leaf(reference: ColumnReference) -> TreeNode:
        label = f"{reference.joint}.{reference.column}"
        if downstream:
            return TreeNode(label, _uncertain_readers(assembly, reference.joint))
        if assembly.joint(reference.joint).type == SOURCE:
            return TreeNode(label, SOURCE)
        origins = _lineage(assembly, reference)
        return TreeNode(label, UNCERTAIN if origins is None else "" if origins else CONSTANT)

    return _tree(start, after if downstream else before, leaf)


def _tree(start: T, following: Callable[[T], Iterable[T]], leaf: Callable[[T], TreeNode]) -> TreeNode:
    """Return the tree below ``start``; what has been shown is not shown again with what is below it."""
    shown: set[T] = set()

    def node(each: T) -> TreeNode:
        entry, below = leaf(each), tuple(following(each))
        if each in shown and below:
            return TreeNode(entry.label, AGAIN)
        shown.add(each)
        return TreeNode(entry.label, entry.note, tuple(node(next_) for next_ in below))

    return node(start)


def _lineage(assembly: CompiledAssembly, reference: ColumnReference) -> tuple[ColumnReference, ...] | None:
    """Return the columns of the direct upstream of which a column is computed; None if they are not certain."""
    columns = assembly.joint(reference.joint).lineage
    return next((origin.upstream for origin in columns if origin.column == reference.column), None)


def _uncertain_readers(assembly: CompiledAssembly, name: str) -> str:
    """Return a note about joints that read this one and of which it is not certain what each column is made from."""
    readers = []
    for reader in map(assembly.joint, assembly.consumers(name)):
        known = {origin.column for origin in reader.lineage}
        if reader.schema is None or any(field.name not in known for field in reader.schema):
            readers.append(reader.name)
    return f"not certain: in {', '.join(readers)}" if readers else ""


def _joint(assembly: CompiledAssembly, name: str) -> CompiledJoint:
    known = [joint.name for joint in assembly.joints]
    if name not in known:
        raise RivetError("RVT-306", f"no joint is named '{name}'{nearest(name, known)}")
    return assembly.joint(name)


def _column(joint: CompiledJoint, column: str) -> str:
    """Return the column's name as the joint has it."""
    names = {field.name for field in joint.schema or ()} | {origin.column for origin in joint.lineage}
    origin = next((name for name in names if name.lower() == column.lower()), None)
    if origin is None:
        why = nearest(column, names) if names else ": its columns are not known; see compile --introspect"
        message = f"the joint '{joint.name}' has no column '{column}'{why}"
        raise RivetError("RVT-306", message, joint=joint.name, remediation="Name one of its columns.")
    return origin
