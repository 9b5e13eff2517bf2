"""Names that a template uses and does not assign, with what is called of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jinja2 import nodes


@dataclass(frozen=True)
class Use:
    """A name that nothing assigns, with the attributes behind it, and the call of it if it is called.

    ``may_miss`` is whether the template expects that there is no such name: it asks, or has a default.
    """

    path: tuple[str, ...]
    node: nodes.Expr
    call: nodes.Call | None
    may_miss: bool = False


def bound(body: Sequence[nodes.Node]) -> Iterator[str]:
    """Yield the names that a template assigns, its macros and their arguments among them."""
    for part in body:
        for name in part.find_all(nodes.Name):
            if name.ctx in ("store", "param"):
                yield name.name
        for reference in part.find_all(nodes.NSRef):
            yield reference.name
        for macro in [part] if isinstance(part, nodes.Macro) else part.find_all(nodes.Macro):
            yield macro.name
        if isinstance(part, nodes.Name) and part.ctx == "store":
            yield part.name


def uses(node: nodes.Node) -> Iterator[Use]:
    """Yield what a node and those below it use."""
    if isinstance(node, nodes.Call) and (path := _path(node.node)):
        yield Use(path, node.node, node)
        others = (*node.args, *node.kwargs, node.dyn_args, node.dyn_kwargs)
        for other in others:
            if other is not None:
                yield from uses(other)
    elif (
        isinstance(node, nodes.Test | nodes.Filter) and node.name in _FOR_MISSING and isinstance(node.node, nodes.Name)
    ):
        yield Use((node.node.name,), node.node, None, may_miss=True)
        for other in node.args:
            yield from uses(other)
    elif path := _path(node):
        assert isinstance(node, nodes.Expr)
        yield Use(path, node, None)
    else:
        for child in node.iter_child_nodes():
            yield from uses(child)


_FOR_MISSING = frozenset(("defined", "undefined", "default"))


def _path(node: nodes.Node) -> tuple[str, ...]:
    if isinstance(node, nodes.Name):
        return (node.name,) if node.ctx == "load" else ()
    if isinstance(node, nodes.Getattr) and (path := _path(node.node)):
        return (*path, node.attr)
    return ()
