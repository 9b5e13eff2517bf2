"""Names that a template assigns only in some cases: in the others dbt writes nothing, and our templates fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jinja2 import nodes

_ASKING = frozenset({"defined", "undefined"})


def unset_names(body: Sequence[nodes.Node], given: Iterable[str] = ()) -> list[str]:
    """Return the names that are used where only some of the cases before have assigned them, sorted.

    ``given`` are the names that are known at the beginning. A name of which the template asks whether it is defined is
    left out.

    >>> from jinja2 import Environment
    >>> parse = Environment().parse
    >>> unset_names(parse("{% if x %}{% set a, b = 1, 2 %}{% else %}{% set b = 3 %}{% endif %}{{ a }}{{ b }}").body)
    ['a']
    """
    reader = _Reader()
    reader.read(body, set(given))
    return sorted(reader.unset - reader.asked)


class _Reader:
    def __init__(self) -> None:
        self.unset: set[str] = set()
        self.asked: set[str] = set()
        self._some: set[str] = set()

    def read(self, body: Iterable[nodes.Node], known: set[str]) -> set[str]:
        """Return the names that are known behind ``body``, which is read with the names that are ``known``."""
        for node in body:
            known = self._read(node, known)
        return known

    def _read(self, node: nodes.Node, known: set[str]) -> set[str]:
        if isinstance(node, nodes.If):
            cases = []
            for case in (node, *node.elif_):
                self._expressions(case.test, known)
                cases.append(self.read(case.body, known))
            cases.append(self.read(node.else_, known))
            behind = set.intersection(*cases)
            self._some |= set.union(*cases) - behind
            return behind
        if isinstance(node, nodes.Macro | nodes.CallBlock):
            self.read(node.body, known | {argument.name for argument in node.args})
        elif isinstance(node, nodes.For):
            self._expressions(node.iter, known)
            within = known | set(_names(node.target))
            self.read([*([node.test] if node.test else []), *node.body], within)
            self.read(node.else_, known)
        elif isinstance(node, nodes.With):
            self.read(node.body, known.union(*map(_names, node.targets)))
        elif isinstance(node, nodes.FilterBlock | nodes.AssignBlock):
            self.read(node.body, known)
        else:
            self._expressions(node, known)
        return known | set(_names(node.target)) if isinstance(node, nodes.Assign | nodes.AssignBlock) else known

    def _expressions(self, node: nodes.Node, known: set[str]) -> None:
        for test in node.find_all(nodes.Test):
            if test.name in _ASKING and isinstance(test.node, nodes.Name):
                self.asked.add(test.node.name)
        for name in [node] if isinstance(node, nodes.Name) else node.find_all(nodes.Name):
            if name.ctx == "load" and name.name in self._some and name.name not in known:
                self.unset.add(name.name)


def _names(target: nodes.Node) -> Iterator[str]:
    """Yield the names that a target assigns."""
    for name in [target] if isinstance(target, nodes.Name) else target.find_all(nodes.Name):
        yield name.name
