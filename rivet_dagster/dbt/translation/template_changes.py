"""The changes of a template's text, and what has no counterpart: all that is found as one reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jinja2 import nodes

from rivet_dagster.dbt.declared import Macro, Place
from rivet_dagster.dbt.template import Edit, Template
from rivet_dagster.dbt.translation.template_uses import Use


@dataclass(frozen=True)
class Problem:
    """Part of a template that has no counterpart, and where it is.

    ``is_loud`` is whether our templates fail there, too: then it does not matter in a branch that none of them reaches.
    """

    message: str
    place: Place
    is_loud: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass
class Found:
    """Findings of a template: the parts to replace, what that changes, what cannot be, and what it uses.

    ``dropped`` are the spans of calls that are gone with all that they name.
    """

    edits: list[Edit] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    macros: list[Macro] = field(default_factory=list)
    refs: list[str] = field(default_factory=list)
    asks_incremental: bool = False
    uses_this: bool = False
    dropped: list[tuple[int, int]] = field(default_factory=list)
    test_config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Changes:
    """Notes what is found in the part of a template from ``begin`` to ``end``, a text of the file ``file``."""

    template: Template
    file: str
    begin: int
    end: int
    found: Found = field(default_factory=Found)

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
        self.found.edits.append(Edit(start, end, ""))
        self.found.dropped.append(self.template.span(use.call))
        if use.path[0] != "config":
            self._change(f"{'.'.join(use.path)}(...) is left out", use.node)
        return True

    def preset(self, names: Iterable[str], at: int) -> None:
        """Assign an empty text to names at an offset: what dbt writes where nothing has assigned them."""
        strips = "-" if self.template.text[:at].endswith(("-%}", "-}}")) else ""
        for name in names:
            self.found.edits.append(Edit(at, at, f"{{% set {name} = '' {strips}%}}"))
            self.found.changes.append(f"line {self.template.line(at)}: {name} is empty where nothing sets it")

    def _edit(self, start: int, end: int, text: str, change: str, node: nodes.Expr) -> None:
        self.found.edits.append(Edit(start, end, text))
        self._change(change, node)

    def _change(self, change: str, node: nodes.Expr) -> None:
        line = self.template.line(self.template.span(node)[0])
        self.found.changes.append(f"line {line}: {change}")

    def is_dropped(self, use: Use) -> bool:
        """Return whether a use is an argument of a call that is gone."""
        offset = _first(use.node)
        return any(start <= offset < end for start, end in self.found.dropped)

    def problem(self, message: str, node: nodes.Node | None, is_loud: bool = False) -> None:
        """Note what has no counterpart."""
        offset = 0 if node is None else _first(node)
        self.found.problems.append(Problem(message, Place(self.file, self.template.line(offset)), is_loud))


def _first(node: nodes.Node) -> int:
    while isinstance(node, nodes.Getattr | nodes.Call):
        node = node.node
    return node.lineno
