"""The changes of a template, what it uses and assigns, and what has no counterpart: found as one reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import nodes

from rivet_dagster.dbt.declared import DbtLocation, Macro
from rivet_dagster.dbt.template import DbtTemplate, TemplateEdit

_ASKING = frozenset({"defined", "undefined"})
_DEFAULTS = frozenset({"default", "d"})


@dataclass(frozen=True)
class TemplateProblem:
    """Part of a template that has no counterpart, and where it is.

    ``fails`` is whether our templates fail there, too: then it does not matter in a branch that none of them reaches.
    """

    message: str
    location: DbtLocation
    fails: bool = False

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


@dataclass
class TemplateFindings:
    """Findings of a template: the parts to replace, what that changes, what cannot be, and what it uses.

    ``dropped`` are the spans of calls that are gone with all that they name, ``raised`` the messages of errors that the
    template raises itself.
    """

    edits: list[TemplateEdit] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    problems: list[TemplateProblem] = field(default_factory=list)
    macros: list[Macro] = field(default_factory=list)
    refs: list[str] = field(default_factory=list)
    asks_incremental: bool = False
    uses_this: bool = False
    dropped: list[tuple[int, int]] = field(default_factory=list)
    test_config: dict[str, Any] = field(default_factory=dict)
    raised: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TemplateChanges:
    """Notes what is found in the part of a template from ``begin`` to ``end``, a text of the file ``file``."""

    template: DbtTemplate
    file: str
    begin: int
    end: int
    findings: TemplateFindings = field(default_factory=TemplateFindings)

    def unquoted(self, node: nodes.Expr, text: str, change: str, is_bound: bool) -> None:
        """Replace an expression; a value that is bound as a parameter loses the quotes around its tag."""
        if is_bound and self.template.is_alone(node):
            start, end = self.template.tag(self.template.span(node)[0])
            around = self.template.text[start - 1 : start] + self.template.text[end : end + 1]
            if around in ("''", '""'):
                self._edit(start - 1, end + 1, f"{{{{ {text} }}}}", change, node)
                return
        if text != self.text(node):
            self.replace(node, text, change)

    def text(self, node: nodes.Expr) -> str:
        """Return the text of an expression."""
        start, end = self.template.span(node)
        return self.template.text[start:end]

    def replace(self, node: nodes.Expr, text: str, change: str) -> None:
        """Replace an expression."""
        start, end = self.template.span(node)
        self._edit(start, end, text, change, node)

    def replace_tag(self, node: nodes.Expr, text: str, change: str) -> None:
        """Replace the tag that an expression alone stands in."""
        start, end = self.template.tag(self.template.span(node)[0])
        self._edit(start, end, text, change, node)

    def drop(self, use: Use) -> bool:
        """Remove the tag of a call that writes nothing; return False where its value is used."""
        assert use.node is not None
        start, end = self.template.tag(self.template.span(use.node)[0])
        text = self.template.text
        inner = re.match(r"\{(?:\{|%)[-+]?\s*(do\s+)?", text[start:end])
        if use.call is None or inner is None or start + inner.end() != self.template.span(use.call)[0]:
            return False
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        last = len(text) if last < 0 else last + 1
        if not text[first:start].strip() and not text[end:last].strip() and text[end - 1] != "\n":
            start, end = max(first, self.begin), min(last, self.end)
        self.findings.edits.append(TemplateEdit(start, end, ""))
        self.findings.dropped.append(self.template.span(use.call))
        if use.path[0] != "config":
            self._change(f"{'.'.join(use.path)}(...) is left out", use.node)
        return True

    def preset(self, names: Iterable[str], at: int) -> None:
        """Assign an empty text to names at an offset: what dbt writes where nothing has assigned them."""
        strips = "-" if self.template.text[:at].endswith(("-%}", "-}}")) else ""
        for name in names:
            self.findings.edits.append(TemplateEdit(at, at, f"{{% set {name} = '' {strips}%}}"))
            self.findings.changes.append(f"line {self.template.line(at)}: {name} is empty where nothing sets it")

    def _edit(self, start: int, end: int, text: str, change: str, node: nodes.Expr) -> None:
        self.findings.edits.append(TemplateEdit(start, end, text))
        self._change(change, node)

    def _change(self, change: str, node: nodes.Expr) -> None:
        line = self.template.line(self.template.span(node)[0])
        self.findings.changes.append(f"line {line}: {change}")

    def is_dropped(self, use: Use) -> bool:
        """Return whether a use is an argument of a call that is gone."""
        offset = _first(use.node)
        return any(start <= offset < end for start, end in self.findings.dropped)

    def problem(self, message: str, node: nodes.Node | None, fails: bool = False) -> None:
        """Note what has no counterpart."""
        offset = 0 if node is None else _first(node)
        self.findings.problems.append(
            TemplateProblem(message, DbtLocation(self.file, self.template.line(offset)), fails)
        )


def _first(node: nodes.Node) -> int:
    while isinstance(node, nodes.Getattr | nodes.Call):
        node = node.node
    return node.lineno


@dataclass(frozen=True)
class Use:
    """A name that nothing assigns, with the attributes behind it, and the call of it if it is called.

    ``may_miss`` is whether the template expects that there is no such name: it asks, or has a default. ``is_asked`` is
    whether it only asks.
    """

    path: tuple[str, ...]
    node: nodes.Expr
    call: nodes.Call | None
    may_miss: bool = False
    is_asked: bool = False


def uses(node: nodes.Node, is_missing: Callable[[Sequence[str]], bool] = lambda _: False) -> Iterator[Use]:
    """Yield what a node and those below it use, but for what is never rendered since something ``is_missing``.

    >>> from jinja2 import Environment
    >>> body = Environment().parse("{% if a is defined and a.b %}{{ c }}{% else %}{{ d }}{% endif %}")
    >>> [use.path for use in uses(body, lambda path: path[0] == "a")], len(list(uses(body)))
    ([('a',), ('d',)], 4)
    """
    if isinstance(node, nodes.Call) and (path := _path(node.node)):
        yield Use(path, node.node, node)
        others = (*node.args, *node.kwargs, node.dyn_args, node.dyn_kwargs)
        for other in others:
            if other is not None:
                yield from uses(other, is_missing)
    elif isinstance(node, nodes.Test) and node.name in _ASKING and (path := _path(node.node)):
        assert isinstance(node.node, nodes.Expr)
        yield Use(path, node.node, None, may_miss=True, is_asked=True)
    elif isinstance(node, nodes.Filter) and node.name in _DEFAULTS and isinstance(node.node, nodes.Name):
        yield Use((node.node.name,), node.node, None, may_miss=True)
        for other in node.args:
            yield from uses(other, is_missing)
    elif path := _path(node):
        assert isinstance(node, nodes.Expr)
        yield Use(path, node, None)
    else:
        for child in _rendered_children(node, is_missing):
            yield from uses(child, is_missing)


def _rendered_children(node: nodes.Node, is_missing: Callable[[Sequence[str]], bool]) -> Iterator[nodes.Node]:
    """Yield the children of a node but for branches that are never rendered, and operands that are never evaluated."""
    if isinstance(node, nodes.If):
        for case in (node, *node.elif_):
            yield case.test
            truth = _truth(case.test, is_missing)
            if truth is not False:
                yield from case.body
            if truth is True:
                return
        yield from node.else_
    elif isinstance(node, nodes.CondExpr):
        yield node.test
        truth = _truth(node.test, is_missing)
        if truth is not False:
            yield node.expr1
        if truth is not True and node.expr2 is not None:
            yield node.expr2
    elif isinstance(node, nodes.And | nodes.Or):
        yield node.left
        if _truth(node.left, is_missing) is not isinstance(node, nodes.Or):
            yield node.right
    else:
        yield from node.iter_child_nodes()


def _truth(node: nodes.Node, is_missing: Callable[[Sequence[str]], bool]) -> bool | None:
    """Return whether a condition holds; None where that does not follow from the names that are missing."""
    if isinstance(node, nodes.Not):
        truth = _truth(node.node, is_missing)
        return None if truth is None else not truth
    if isinstance(node, nodes.And | nodes.Or):
        decisive = isinstance(node, nodes.Or)
        truths = [_truth(operand, is_missing) for operand in (node.left, node.right)]
        return decisive if decisive in truths else None if None in truths else not decisive
    if isinstance(node, nodes.Test) and node.name in _ASKING and (path := _path(node.node)) and is_missing(path):
        return node.name == "undefined"
    return None


def _path(node: nodes.Node) -> tuple[str, ...]:
    if isinstance(node, nodes.Name):
        return (node.name,) if node.ctx == "load" else ()
    if isinstance(node, nodes.Getattr) and (path := _path(node.node)):
        return (*path, node.attr)
    return ()


def bound_names(body: Sequence[nodes.Node]) -> Iterator[str]:
    """Yield the names that a template assigns, its macros and their arguments among them."""
    for part in body:
        for node in (part, *part.find_all((nodes.Name, nodes.NSRef, nodes.Macro))):
            if isinstance(node, nodes.NSRef | nodes.Macro) or (
                isinstance(node, nodes.Name) and node.ctx in ("store", "param")
            ):
                yield node.name


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
