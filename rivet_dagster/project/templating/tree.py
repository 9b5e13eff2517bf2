"""The tree of a template: what it may not hold, its macros, and the calls by which the environment follows it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from rivet_dagster.model.text_lines import TextLocation
from rivet_dagster.project.templating.limits import LARGEST
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


def macros_in(tree: nodes.Template) -> list[nodes.Macro]:
    """Return the macros at the top of a template's tree."""
    return [node for node in tree.body if isinstance(node, nodes.Macro)]


def refuse_others(tree: nodes.Template, file: str) -> None:
    """Raise TemplateError for a file that holds something besides macros and comments."""
    for node in tree.body:
        if isinstance(node, nodes.Macro):
            continue
        parts = node.nodes if isinstance(node, nodes.Output) else [node]
        for part in parts:
            if not (isinstance(part, nodes.TemplateData) and _is_comment(part.data)):
                message = "holds something besides {% macro %} blocks and comments"
                raise TemplateError(message, TextLocation(part.lineno, file))


def _is_comment(text: str) -> bool:
    return all(line.strip() == "" or line.strip().startswith("--") for line in text.splitlines())


def register(tree: nodes.Template, macros: Iterable[nodes.Macro]) -> None:
    """Let the template of a file hand the environment its macros, private ones too."""
    for macro in macros:
        args: list[nodes.Expr] = [nodes.Const(macro.name), nodes.Name(macro.name, "load")]
        call = nodes.Call(nodes.EnvironmentAttribute("rivet_macro"), args, [], None, None)
        tree.body.append(nodes.ExprStmt(call).set_lineno(macro.lineno, override=True))


def add_hooks(tree: nodes.Template, file: str | None) -> nodes.Template:
    """Return the tree of a template, or of a ``file`` of macros, with calls of the environment's hooks in it.

    Raises TemplateError for what would read other templates.
    """
    for node in _all(tree):
        if type(node) in _REFUSED:
            raise TemplateError(
                f"holds {_REFUSED[type(node)]}, which is not supported", TextLocation(node.lineno, file)
            )
        if isinstance(node, nodes.Const) and _is_too_large(node.value):
            raise TemplateError(f"holds a number of more than {LARGEST:,} bits", TextLocation(node.lineno, file))
    changed: nodes.Template = _Hooks(file).visit(tree)
    return changed


def _is_too_large(value: Any) -> bool:
    return value.bit_length() > LARGEST if isinstance(value, int) else isinstance(value, float) and math.isinf(value)


def _all(root: nodes.Node) -> Iterable[nodes.Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.iter_child_nodes()


class _Hooks(NodeTransformer):
    def __init__(self, file: str | None) -> None:
        self._file = file

    def _hook(self, name: str, args: list[nodes.Expr], line: int) -> nodes.Call:
        hook = nodes.EnvironmentAttribute(name, lineno=line)
        return nodes.Call(hook, args, [], None, None, lineno=line)

    def _at(self, name: str, arg: nodes.Expr, line: int) -> nodes.Call:
        return self._hook(name, [arg, self._place(line)], line)

    def _place(self, line: int) -> nodes.Const:
        """Return the place as one constant: Jinja's compiler goes through all nodes a dozen times."""
        return nodes.Const((line, self._file), lineno=line)

    def visit_Output(self, node: nodes.Output) -> nodes.Output:
        """Write everything through a hook, so that its location and its size are known."""
        written: list[nodes.Expr] = []
        for item in node.nodes:
            if isinstance(item, nodes.TemplateData):
                text = nodes.Const((item.data, item.lineno, self._file), lineno=item.lineno)
                written.append(self._hook("rivet_text", [text], item.lineno))
            else:
                written.append(self._at("rivet_write", self.visit(item), item.lineno))
        node.nodes = written
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Call:
        """Tell the location of a call before it happens."""
        self.generic_visit(node)
        node.node = self._at("rivet_called", node.node, node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        return self._at("rivet_join", nodes.List(node.nodes, lineno=node.lineno), node.lineno)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:
        self.generic_visit(node)
        node.expr = self._hook("rivet_operand", [node.expr], node.lineno)
        return node

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.FilterBlock:
        """Write what the filters give as any other value."""
        self.generic_visit(node)
        node.filter = nodes.Filter(node.filter, WRITTEN, [self._place(node.lineno)], [], None, None, lineno=node.lineno)
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Scope:
        """Write what the call gives as any other value: the block is the macro `caller`, which the call is given."""
        line = node.lineno
        self.generic_visit(node)
        macro = nodes.Macro("caller", node.args, node.defaults, node.body, lineno=line)
        node.call.kwargs.append(nodes.Keyword("caller", nodes.Name("caller", "load", lineno=line), lineno=line))
        written = nodes.Output([self._at("rivet_write", node.call, line)], lineno=line)
        return nodes.Scope([macro, written], lineno=line)

    def visit_For(self, node: nodes.For) -> nodes.For:
        """Count every item that is looked at, also those that the loop's own condition leaves out."""
        line = node.lineno
        self.generic_visit(node)
        node.iter = self._hook("rivet_items", [cast(nodes.Expr, node.iter)], line)
        if node.test is not None:
            node.test = nodes.And(self._hook("rivet_step", [], line), node.test, lineno=line)
        node.body.insert(0, nodes.ExprStmt(self._hook("rivet_step", [], line), lineno=line))
        return node
