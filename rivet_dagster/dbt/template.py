"""Jinja templates as dbt reads them, with the position of everything in the text.

The tree is that of Jinja's own parser. Its nodes have a line alone, from which no text can be changed; so each token is
given the offset at which it begins in place of its line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser

TEST, SNAPSHOT, MATERIALIZATION, DOCS = "test", "snapshot", "materialization", "docs"

_SKIPPED = frozenset(
    "whitespace comment_begin comment comment_end linecomment linecomment_begin linecomment_end raw_begin "
    "raw_end".split()
)
_OPENING = {"(": ")", "[": "]", "{": "}"}
_BEGINNINGS = frozenset({"block_begin", "variable_begin"})
_ENDS = frozenset({"block_end", "variable_end"})


class DbtTemplateError(ValueError):
    """A template that Jinja cannot read; the message is a sentence without the position."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class TemplatePiece(NamedTuple):
    """A token of the text, from ``start`` to ``end``."""

    start: int
    end: int
    kind: str
    text: str


class TemplateEdit(NamedTuple):
    """A part of the text, and what replaces it."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class TemplateBlock:
    """A block that holds others: a macro, or one of dbt's own (a test, a snapshot, ...), with its span in the text.

    ``inner`` is the span of what is between its tags.
    """

    kind: str
    name: str
    node: nodes.Macro
    start: int
    end: int
    inner: tuple[int, int]


@dataclass(frozen=True)
class DbtTemplate:
    """A parsed template; the ``lineno`` of each node of ``tree`` is the offset of its token."""

    text: str
    tree: nodes.Template
    pieces: tuple[TemplatePiece, ...]
    _starts: tuple[int, ...]
    _lines: tuple[int, ...]

    def line(self, offset: int) -> int:
        """Return the line of an offset, counted from 1."""
        return bisect_right(self._lines, offset)

    def span(self, node: nodes.Node) -> tuple[int, int]:
        """Return where an expression begins and ends: a name, a constant, an attribute or a call."""
        return _leftmost(node), self._end(node)

    def tag(self, offset: int) -> tuple[int, int]:
        """Return the span of the ``{{ }}`` or ``{% %}`` around an offset."""
        index = self._index(offset)
        first = next(i for i in range(index, -1, -1) if self.pieces[i].kind in _BEGINNINGS)
        last = next(i for i in range(index, len(self.pieces)) if self.pieces[i].kind in _ENDS)
        return self.pieces[first].start, self.pieces[last].end

    def is_alone(self, node: nodes.Node) -> bool:
        """Return whether an expression is all that its ``{{ }}`` holds."""
        start, end = self.span(node)
        before, after = self.pieces[self._index(start) - 1], self.pieces[self._index_after(end)]
        return before.kind == "variable_begin" and after.kind == "variable_end"

    def blocks(self) -> tuple[TemplateBlock, ...]:
        """Return the macros, tests, snapshots, materializations and docs at the top of the template."""
        return self._blocks

    @cached_property
    def _blocks(self) -> tuple[TemplateBlock, ...]:
        return tuple(self._block(node) for node in self.tree.find_all(nodes.Macro)) if "{%" in self.text else ()

    def bodies(self, inner: tuple[int, int]) -> Iterator[nodes.Node]:
        """Yield the nodes within a span: those of one of the blocks, else all."""
        blocks = [] if inner == (0, len(self.text)) else [block for block in self.blocks() if block.inner == inner]
        for body in [block.node.body for block in blocks] or [self.tree.body]:
            yield from body

    def _block(self, node: nodes.Macro) -> TemplateBlock:
        kind, _, name = node.name.rpartition(":")
        start, after = self.tag(node.lineno)
        keyword = self.pieces[self._index(node.lineno)].text
        depth, position = 1, self._index_after(after)
        while True:
            piece = self.pieces[position]
            if piece.kind == "name" and self.pieces[position - 1].kind == "block_begin":
                depth += (piece.text == keyword) - (piece.text == f"end{keyword}")
                if depth == 0:
                    closing, end = self.tag(piece.start)
                    return TemplateBlock(kind or "macro", name, node, start, end, (after, closing))
            position += 1

    def _end(self, node: nodes.Node) -> int:
        index = self._index(node.lineno)
        piece = self.pieces[index]
        if isinstance(node, nodes.Getattr):
            return self.pieces[index + 1].end
        if isinstance(node, nodes.Filter | nodes.Test):
            raise ValueError("the span of a filter is not known")
        if piece.text not in _OPENING:
            return piece.end
        depth = 0
        while True:
            piece = self.pieces[index]
            if piece.kind == "operator":
                depth += (piece.text in _OPENING) - (piece.text in _OPENING.values())
                if depth == 0:
                    return piece.end
            index += 1

    def _index(self, offset: int) -> int:
        """Return the index of the piece that an offset is in."""
        return bisect_right(self._starts, offset) - 1

    def _index_after(self, offset: int) -> int:
        """Return the index of the first piece that begins at an offset, or after it."""
        return bisect_right(self._starts, offset - 1)


@lru_cache(maxsize=4096)
def read_template(text: str) -> DbtTemplate:
    r"""Parse a text. Raise TemplateError.

    >>> template = read_template("select 1\nfrom {{ source('a', 'b') }}")
    >>> call = template.tree.find(nodes.Call)
    >>> start, end = template.span(call)
    >>> template.text[start:end], template.line(start), template.is_alone(call)
    ("source('a', 'b')", 2, True)
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = (0, *(offset + 1 for offset, character in enumerate(text) if character == "\n"))
    environment = _environment()
    try:
        pieces = tuple(_pieces(environment, text))
        environment.extensions[_Offsets.identifier].pieces = pieces  # type: ignore[attr-defined]
        tree = environment.parse(text)
    except TemplateSyntaxError as error:
        message = (error.message or "it is no template").rstrip(".")
        line = error.lineno if error.source == _LEXED else bisect_right(lines, error.lineno)
        raise DbtTemplateError(f"Jinja cannot read it: {message}", line) from None
    except RecursionError:
        raise DbtTemplateError("Jinja cannot read it: it is nested too deeply", 1) from None
    except ValueError as error:  # a number of too many digits
        raise DbtTemplateError(f"Jinja cannot read it: {error}", 1) from None
    return DbtTemplate(text, tree, pieces, tuple(piece.start for piece in pieces), lines)


def apply_edits(text: str, edits: Iterable[TemplateEdit], begin: int = 0, end: int | None = None) -> str:
    """Return the text from ``begin`` to ``end`` with its parts replaced; edits outside of it do not concern it.

    >>> apply_edits("select * from a", [TemplateEdit(14, 15, "b"), TemplateEdit(7, 8, "x")], begin=7)
    'x from b'
    """
    end = len(text) if end is None else end
    parts, position = [], begin
    for edit in sorted(edits):
        if edit.start >= position and edit.end <= end:
            parts += [text[position : edit.start], edit.text]
            position = edit.end
    return "".join([*parts, text[position:end]])


def lines_of(text: str, edits: Iterable[TemplateEdit], begin: int, end: int) -> list[int]:
    r"""Return on which line of the text each line of ``apply_edits`` begins.

    >>> lines_of("a\nb\nc\nd", [TemplateEdit(2, 6, "x\n")], 0, 7)
    [1, 2, 4]
    """
    lines, position = [text.count("\n", 0, begin) + 1], begin
    for edit in (*sorted(edits), TemplateEdit(end, end, "")):
        if edit.start < position or edit.end > end:
            continue
        before = text.count("\n", 0, position) + 1
        lines += [before + number for number in range(1, text.count("\n", position, edit.start) + 1)]
        at = text.count("\n", 0, edit.end) + 1
        lines += [at] * edit.text.count("\n")
        if edit.end > edit.start and not edit.text and (edit.start == begin or text[edit.start - 1] == "\n"):
            lines[-1] = at
        position = edit.end
    return lines


def constant(node: nodes.Node) -> Any:
    """Return the value of a constant expression. Raise ValueError for any other."""
    try:
        return node.as_const() if isinstance(node, nodes.Expr) else _no_constant()
    except nodes.Impossible:
        return _no_constant()


def _no_constant() -> Any:
    raise ValueError("is not constant")


_LEXED = "lexed"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    extensions: list[str | type[Extension]] = ["jinja2.ext.do", "jinja2.ext.loopcontrols", _DbtBlocks, _Offsets]
    return Environment(extensions=extensions, keep_trailing_newline=True)


def _pieces(environment: Environment, text: str) -> Iterator[TemplatePiece]:
    """Yield the tokens that the parser sees, with their positions; between them is space alone, or a comment."""
    position = 0
    try:
        for _, kind, value in environment.lexer.tokeniter(text, None):
            position = text.index(value, position)
            if kind not in _SKIPPED:
                yield TemplatePiece(position, position + len(value), kind, value)
            position += len(value)
    except TemplateSyntaxError as error:
        error.source = _LEXED
        raise


class _Offsets(Extension):
    """Gives the parser the pieces as its tokens, with their offsets as lines."""

    priority = 1000
    pieces: tuple[TemplatePiece, ...] = ()

    def filter_stream(self, stream: TokenStream) -> Iterable[Token]:
        return self.environment.lexer.wrap((piece.start, piece.kind, piece.text) for piece in self.pieces)


class _DbtBlocks(Extension):
    """The blocks that dbt adds to Jinja, as macros whose names begin with the kind of block."""

    tags = {TEST, "data_test", SNAPSHOT, MATERIALIZATION, DOCS}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        tag = next(parser.stream)
        node = nodes.Macro(lineno=tag.lineno)
        name = parser.parse_assign_target(name_only=True).name
        kind = TEST if tag.value == "data_test" else tag.value
        node.name = f"{kind}:{name}"
        if kind == TEST:
            parser.parse_signature(node)
        else:
            node.args, node.defaults = [], []
            while parser.stream.current.type != "block_end":
                next(parser.stream)
        node.body = parser.parse_statements((f"name:end{tag.value}",), drop_needle=True)
        return node


def _leftmost(node: nodes.Node) -> int:
    while isinstance(node, nodes.Call | nodes.Getattr | nodes.Getitem | nodes.Filter):
        assert node.node is not None
        node = node.node
    return node.lineno
