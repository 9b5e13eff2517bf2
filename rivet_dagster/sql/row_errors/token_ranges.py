"""A query's text and its tokens, and the ranges of tokens between brackets, separators and clauses.

An expression of it as the author wrote it: its text, its tree, and the text of each node of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sqlglot import TokenType, exp
from sqlglot.tokens import Token

from rivet_dagster.sql.parsing.dialect import ITEM_PREFIX, parse_item, tokenize
from rivet_dagster.sql.parsing.lexer import line_of, pieces, without_comments

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})


class Range(NamedTuple):
    """The tokens from ``start`` up to, not including, ``end``."""

    start: int
    end: int


@dataclass(frozen=True)
class Code:
    """A text without comments, each character at the place where it stood, and its tokens."""

    text: str
    tokens: tuple[Token, ...]

    @classmethod
    def of(cls, sql: str) -> Code:
        """Return the code of a text. Raise SqlError."""
        return cls(without_comments(sql), tuple(tokenize(sql)))

    @cached_property
    def partner(self) -> dict[int, int]:
        """The closing bracket of each opening one, and the other way round."""
        opened: list[int] = []
        partner: dict[int, int] = {}
        for index, token in enumerate(self.tokens):
            if token.token_type in _OPENING:
                opened.append(index)
            elif token.token_type in _CLOSING and opened:
                partner[index] = opened.pop()
                partner[partner[index]] = index
        return partner

    @property
    def whole(self) -> Range:
        """The range of all tokens."""
        return Range(0, len(self.tokens))

    def type(self, index: int) -> TokenType | None:
        """Return the type of a token; None beyond the text."""
        return self.tokens[index].token_type if 0 <= index < len(self.tokens) else None

    def word(self, index: int) -> str:
        """Return the text of a token in upper case; an empty text beyond the text."""
        return self.tokens[index].text.upper() if 0 <= index < len(self.tokens) else ""

    def span(self, part: Range) -> tuple[int, int]:
        """Return the positions of the range's first character and behind its last one."""
        return self.tokens[part.start].start, self.tokens[part.end - 1].end + 1

    def of_range(self, part: Range) -> str:
        """Return the text of a range of tokens."""
        start, end = self.span(part)
        return self.text[start:end]

    def line(self, part: Range) -> int:
        """Return the line on which the range begins, counted from 1."""
        return line_of(self.text, self.tokens[min(part.start, len(self.tokens) - 1)].start)

    def outside(self, part: Range) -> Iterator[int]:
        """Yield the indexes of the tokens of a range that are not within brackets; opening brackets are yielded."""
        index = part.start
        while index < part.end:
            yield index
            index = max(self.partner.get(index, index), index) + 1

    def find(self, part: Range, kinds: Collection[TokenType]) -> int | None:
        """Return the first such token outside of brackets; None if there is none."""
        return next((index for index in self.outside(part) if self.type(index) in kinds), None)

    def split(self, part: Range, separates: Callable[[int], bool]) -> list[Range]:
        """Return the ranges between the tokens outside of brackets that separate them."""
        ends = [index for index in self.outside(part) if separates(index)]
        starts = [part.start, *(index + 1 for index in ends)]
        return [Range(start, end) for start, end in zip(starts, [*ends, part.end], strict=True)]

    def by_commas(self, part: Range) -> list[Range]:
        """Return the ranges between commas outside of brackets."""
        return self.split(part, lambda index: self.type(index) == TokenType.COMMA)

    def is_balanced(self, part: Range) -> bool:
        """Return whether each bracket of the range has its partner in it."""
        inside = range(part.start, part.end)
        return all(self.partner[index] in inside for index in inside if index in self.partner)


class Edit(NamedTuple):
    """The text to be put in the place of the characters from ``start`` up to ``end``."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Sequence[Edit], start: int = 0, end: int | None = None) -> str:
    """Return the part of a text from ``start`` to ``end`` after the edits within it; the later of nested edits counts.

    >>> apply_edits("a + b", [Edit(0, 1, "x"), Edit(4, 5, "y")], 0, 5)
    'x + y'
    """
    end = len(text) if end is None else end
    within = [edit for edit in edits if start <= edit.start and edit.end <= end]
    outer = [e for n, e in enumerate(within) if not any(_covers(o, e) for o in within[n + 1 :])]
    parts, position = [], start
    for edit in sorted(outer, key=lambda edit: (edit.start, edit.end)):
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:end]])


def on_one_line(code: str) -> str:
    r"""Return code without comments with each run of blanks outside of quotes as one space.

    >>> on_one_line("a\n  + 'b\n  c'")
    "a + 'b\n  c'"
    """
    parts, end = [], 0
    for piece in pieces(code):
        if piece.kind == "quoted":
            parts += [_single_spaces(code[end : piece.start]), piece.text]
            end = piece.end
    return "".join([*parts, _single_spaces(code[end:])]).strip()


def _single_spaces(code: str) -> str:
    words = " ".join(code.split())
    left = " " if code[:1].isspace() else ""
    right = " " if code[-1:].isspace() and words else ""
    return f"{left}{words}{right}"


def _covers(outer: Edit, inner: Edit) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end and outer.start < outer.end


_FURTHEST = 8
"""The most tokens that are added to the tokens of a node's names and literals to find its whole text."""


class ExpressionText:
    """An expression that begins on ``line`` of its query. Raises UnreadableSql if it is not one expression."""

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
            part_of_node = self._grown(part, node)
            if part_of_node is not None:
                return part_of_node
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
