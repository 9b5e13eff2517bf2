"""An expression of a query as the author wrote it: its text, its tree, and the text of each node of the tree."""

from __future__ import annotations

from functools import cached_property

from sqlglot import TokenType, exp

from rivet_dagster.sql.parsing.dialect import ITEM_PREFIX, parse_item
from rivet_dagster.sql.parsing.lexer import line_of
from rivet_dagster.sql.row_errors.token_ranges import Code, Range, on_one_line

_FURTHEST = 8
"""The most tokens that are added to the tokens of a node's names and literals to find its whole text."""


class ExpressionText:
    """An expression that begins on ``line`` of its query. Raises Unreadable if it is not one expression."""

    def __init__(self, text: str, line: int) -> None:
        self.text = text
        self.line = line
        self.tree = parse_item(text)

    @cached_property
    def _code(self) -> Code:
        return Code.of(self.text)

    def of(self, node: exp.Expr) -> str | None:
        """Return the author's text of a node of the tree, on one line; None where it cannot be told for certain."""
        part = self._range(node)
        return None if part is None else on_one_line(self._code.of_range(part))

    def span_of(self, node: exp.Expr) -> tuple[int, int] | None:
        """Return the positions of a node's first character and behind its last one; None as for ``of``."""
        part = self._range(node)
        return None if part is None else self._code.span(part)

    def line_of(self, node: exp.Expr) -> int:
        """Return the line of the query on which a node begins, or the expression's if that is not certain."""
        part = self._range(node)
        if part is None:
            return self.line
        return self.line + line_of(self.text, self._code.span(part)[0]) - 1

    def _range(self, node: exp.Expr) -> Range | None:
        if node is self.tree:
            return self._code.whole
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = (node, self._search(node))
        return known[1]

    @cached_property
    def _known(self) -> dict[int, tuple[exp.Expr, Range | None]]:
        return {}

    def _search(self, node: exp.Expr) -> Range | None:
        """Return the smallest range around the node's names and literals that is read as this very node."""
        if node.arg_key == "format" and isinstance(node, exp.Literal) and "start" not in node.meta:
            return self._translated_format(node)
        part = self._names_and_literals(node)
        while part is not None:
            found = self._grown(part, node)
            if found is not None:
                return found
            part = self._enclosing(part)
        return None

    def _translated_format(self, node: exp.Literal) -> Range | None:
        """Return the range of the pattern of a date, which sqlglot writes in its own notation, without its position."""
        call = None if node.parent is None else self._range(node.parent)
        if call is None or call.end - 1 not in self._code.partner:
            return None
        last = self._code.by_commas(Range(self._code.partner[call.end - 1] + 1, call.end - 1))[-1]
        is_literal = last.end - last.start == 1 and self._code.type(last.start) == TokenType.STRING
        return last if is_literal else None

    def _grown(self, part: Range, node: exp.Expr) -> Range | None:
        for more in range(_FURTHEST + 1):
            for left in range(more + 1):
                start = part.start - left
                end = part.end + more - left
                if start < 0 or end > len(self._code.tokens):
                    continue
                candidate = Range(start, end)
                if self._code.is_balanced(candidate) and self._is(candidate, node):
                    return candidate
        return None

    def _is(self, part: Range, node: exp.Expr) -> bool:
        if self._code.word(part.end - 1) == "OVER":
            return False  # sqlglot reads it without the parentheses, too
        tree = parse_item(self._code.of_range(part), required=False)
        return tree is not None and type(tree) is type(node) and tree == node

    def _enclosing(self, part: Range) -> Range | None:
        """Return the range of the innermost brackets around ``part``, with the name of the function before them."""
        code = self._code
        for index in range(part.start - 1, -1, -1):
            closing = code.partner.get(index, -1)
            if closing >= part.end:
                return Range(index, closing + 1)
        return None

    def _names_and_literals(self, node: exp.Expr) -> Range | None:
        """Return the balanced range from the first to the last name or literal in the node; None without any."""
        offset = len(ITEM_PREFIX)
        spans = [
            (leaf.meta["start"] - offset, leaf.meta["end"] - offset)
            for leaf in node.walk()
            if "start" in leaf.meta and "end" in leaf.meta
        ]
        if not spans:
            return None
        code = self._code
        first, last = min(start for start, _ in spans), max(end for _, end in spans)
        inside = [index for index, token in enumerate(code.tokens) if token.end >= first and token.start <= last]
        if not inside:
            return None
        start, end = inside[0], inside[-1] + 1
        for index in range(start, end):
            other = code.partner.get(index)
            if other is not None:
                start, end = min(start, other), max(end, other + 1)
        return Range(start, end)
