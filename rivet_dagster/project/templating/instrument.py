"""Changes of a template's tree, so that the environment sees what is written, iterated, compared and called."""

from __future__ import annotations

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

_MOST_NODES = 100_000


def instrumented(tree: nodes.Template, file: str | None) -> nodes.Template:
    """Return the tree of a template, or of a ``file`` of macros, with calls of the environment's hooks in it.

    Raises TemplateError for what would read other templates.
    """
    for number, node in enumerate(_all(tree)):
        if type(node) in _REFUSED:
            raise TemplateError(f"holds {_REFUSED[type(node)]}, which is not supported", TextPlace(node.lineno, file))
        if number > _MOST_NODES:
            raise TemplateError(f"has more than {_MOST_NODES:,} parts", TextPlace(node.lineno, file))
    changed: nodes.Template = _Instrument(file).visit(tree)
    return changed


def _all(tree: nodes.Node) -> list[nodes.Node]:
    found: list[nodes.Node] = []
    waiting: list[nodes.Node] = [tree]
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
        place: list[nodes.Expr] = [nodes.Const(line, lineno=line), nodes.Const(self._file, lineno=line)]
        return self._hook(name, [*args, *place], line)

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
            operand.expr = self._hook("rivet_operand", [operand.expr], node.lineno)
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.iter = self._hook("rivet_items", [cast(nodes.Expr, node.iter)], node.lineno)
        node.body.insert(0, nodes.ExprStmt(self._hook("rivet_step", [], node.lineno), lineno=node.lineno))
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Getitem:
        """Count what is sliced, which is copied."""
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = self._hook("rivet_operand", [node.node], node.lineno)
        return node
