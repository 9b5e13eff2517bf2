"""Changes of a template's tree, so that the environment sees what is written, iterated, compared and called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from rivet_dagster.model.text_lines import TextPlace
from rivet_dagster.project.templating.words import TemplateError

_REFUSED: dict[type[nodes.Node], str] = {
    nodes.Block: "a block",
    nodes.Extends: "`extends`",
    nodes.FromImport: "an import",
    nodes.Import: "an import",
    nodes.Include: "an include",
    nodes.ScopedEvalContextModifier: "`autoescape`",
}

WRITTEN = "rivet written"
"""The filter that writes what other filters have made of a block; it has a name that no template can write."""


def instrumented(tree: nodes.Template, file: str | None) -> nodes.Template:
    """Return the tree of a template, or of a ``file`` of macros, with calls of the environment's hooks in it.

    Raises TemplateError for what would read other templates.
    """
    for node in _all([tree]):
        if type(node) in _REFUSED:
            raise TemplateError(f"holds {_REFUSED[type(node)]}, which is not supported", TextPlace(node.lineno, file))
    changed: nodes.Template = _Instrument(file).visit(tree)
    return changed


def _all(roots: Sequence[nodes.Node]) -> list[nodes.Node]:
    found: list[nodes.Node] = []
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += node.iter_child_nodes()
    return found


class _Instrument(NodeTransformer):
    def __init__(self, file: str | None) -> None:
        self._file = file

    def _hook(self, name: str, args: list[nodes.Expr], line: int) -> nodes.Call:
        hook = nodes.EnvironmentAttribute(name, lineno=line)
        return nodes.Call(hook, args, [], None, None, lineno=line)

    def _at(self, name: str, args: list[nodes.Expr], line: int) -> nodes.Call:
        return self._hook(name, [*args, *self._place(line)], line)

    def _place(self, line: int) -> list[nodes.Expr]:
        return [nodes.Const(line, lineno=line), nodes.Const(self._file, lineno=line)]

    def _step(self, repeated: Sequence[nodes.Node], line: int) -> nodes.Call:
        return self._hook("rivet_step", [nodes.Const(len(_all(repeated)), lineno=line)], line)

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        """Write everything through a hook, so that its place and its size are known."""
        written: list[nodes.Expr] = []
        for item in node.nodes:
            if isinstance(item, nodes.TemplateData):
                text = nodes.Const(item.data, lineno=item.lineno)
                written.append(self._at("rivet_text", [text], item.lineno))
            else:
                written.append(self._at("rivet_write", [self.visit(item)], item.lineno))
        node.nodes = written
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Call:
        """Tell the place of a call before it happens."""
        self.generic_visit(node)
        node.node = self._at("rivet_called", [node.node], node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        return self._at("rivet_join", [nodes.List(node.nodes, lineno=node.lineno)], node.lineno)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:
        self.generic_visit(node)
        node.expr = self._hook("rivet_operand", [node.expr], node.lineno)
        for operand in node.ops:
            hook = "rivet_searched" if operand.op in ("in", "notin") else "rivet_operand"
            operand.expr = self._hook(hook, [operand.expr], node.lineno)
        return node

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.FilterBlock:
        """Write what the filters give as any other value."""
        self.generic_visit(node)
        node.filter = nodes.Filter(node.filter, WRITTEN, self._place(node.lineno), [], None, None, lineno=node.lineno)
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Scope:
        """Write what the call gives as any other value: the block is the macro `caller`, which the call is given."""
        line = node.lineno
        self._count(node, node.body, node.defaults)
        macro = nodes.Macro("caller", node.args, node.defaults, node.body, lineno=line)
        node.call.kwargs.append(nodes.Keyword("caller", nodes.Name("caller", "load", lineno=line), lineno=line))
        written = nodes.Output([self._at("rivet_write", [node.call], line)], lineno=line)
        return nodes.Scope([macro, written], lineno=line)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:
        self._count(node, node.body, node.defaults)
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:
        test = self._step([node.test], node.lineno) if node.test is not None else None
        self._count(node, node.body)
        node.iter = self._hook("rivet_items", [cast(nodes.Expr, node.iter)], node.lineno)
        if node.test is not None and test is not None:
            node.test = nodes.And(test, node.test, lineno=node.lineno)
        return node

    def _count(self, node: nodes.Node, body: list[nodes.Node], others: Sequence[nodes.Node] = ()) -> None:
        """Visit all parts, and let the body, which is repeated, begin with what it and the others cost."""
        step = nodes.ExprStmt(self._step([*body, *others], node.lineno), lineno=node.lineno)
        self.generic_visit(node)
        body.insert(0, step)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Getitem:
        """Count what is sliced, which is copied, and keys, which are hashed."""
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = self._hook("rivet_operand", [node.node], node.lineno)
        elif not isinstance(node.arg, nodes.Const):
            node.arg = self._hook("rivet_operand", [node.arg], node.lineno)
        return node

    def visit_Slice(self, node: nodes.Slice) -> nodes.Slice:
        """Count the limits of a slice, which a mapping takes for a key."""
        self.generic_visit(node)
        for name in ("start", "stop", "step"):
            limit = getattr(node, name)
            if limit is not None and not isinstance(limit, nodes.Const):
                setattr(node, name, self._hook("rivet_operand", [limit], node.lineno))
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Pair:
        """Count what the key of a mapping holds, all of which is hashed."""
        self.generic_visit(node)
        if not isinstance(node.key, nodes.Const):
            node.key = self._hook("rivet_operand", [node.key], node.lineno)
        return node
