"""Templates in the SQL of joints: conditions and values in Jinja's syntax.

Jinja parses them, but no template is ever executed. Everything that a template may contain is listed here, and anything
else is an error, so that no template can loop, import, or access an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rivet_dagster.errors import nearest
from rivet_dagster.project.text_file import TextError

if TYPE_CHECKING:
    from jinja2 import nodes

IS_INCREMENTAL, IS_SCD2 = "is_incremental", "is_scd2"
WATERMARK, THIS, RUN_STARTED_AT = "watermark_value", "this", "run_started_at"
REF, LANDING_ZONE = "ref", "landing_zone"

CONDITIONS = (IS_INCREMENTAL, IS_SCD2)
OF_A_JOINT = (REF, LANDING_ZONE)
OF_A_SINK = (*CONDITIONS, WATERMARK, THIS)
"""The words that refer to a sink, which their argument may name."""

_WORDS = (*OF_A_SINK, RUN_STARTED_AT, *OF_A_JOINT)
_MARKED = re.compile(r"\{[{%#]")
_REFUSED = {
    "Assign": "an assignment",
    "AssignBlock": "an assignment",
    "Call": "a call of something else",
    "Compare": "a comparison",
    "Filter": "a filter",
    "For": "a loop",
    "Getattr": "an attribute",
    "Getitem": "an attribute",
    "Macro": "a macro",
}


@dataclass(frozen=True)
class Word:
    """A word of the template language, its argument in parentheses, and its line."""

    name: str
    argument: str | None
    line: int

    def __str__(self) -> str:
        return self.name if self.argument is None else f"{self.name}('{self.argument}')"


Decide = Callable[[Word], bool]
"""Returns whether a condition holds."""

_Condition = Callable[[Decide], bool]
_DEEPEST = 50


@dataclass(frozen=True)
class _Text:
    text: str
    line: int


@dataclass(frozen=True)
class _Choice:
    """The first branch whose condition is true."""

    branches: Sequence[tuple[_Condition, Sequence[_Part]]]


_Part = _Text | Word | _Choice


@dataclass(frozen=True)
class Template:
    """A parsed template: its words in order, and all errors in it."""

    words: tuple[Word, ...]
    wrong: tuple[TextError, ...]
    _parts: tuple[_Part, ...] = ()

    def render(self, decide: Decide, write: Callable[[Word], str]) -> str:
        """Return the text, with conditions as ``decide`` says and each value as ``write`` returns it.

        The text that remains is on the same line as in the template.
        """
        return "".join(_rendered(self._parts, decide, write, 1)[0])


def is_template(sql: str) -> bool:
    """Return whether ``sql`` contains a Jinja delimiter; any other SQL is not a template and stays unchanged."""
    return _MARKED.search(sql) is not None


def read_template(sql: str) -> Template:
    r"""Parse a text that contains Jinja delimiters.

    >>> text = "SELECT *\nFROM t{% if is_incremental() %}\nWHERE n > {{ watermark_value }}{% endif %}"
    >>> template = read_template(text)
    >>> template.render(lambda word: False, str)
    'SELECT *\nFROM t'
    >>> template.render(lambda word: True, lambda word: f":{word}")
    'SELECT *\nFROM t\nWHERE n > :watermark_value'
    """
    from jinja2 import Environment, TemplateSyntaxError

    newline: Literal["\r\n", "\n"] = "\r\n" if "\r\n" in sql else "\n"
    reader = _Reader()
    try:
        parts = reader.parts(Environment(keep_trailing_newline=True, newline_sequence=newline).parse(sql).body)
    except TemplateSyntaxError as error:
        return Template((), (TextError(f"cannot be read: {error.message}", error.lineno),))
    except RecursionError:
        return Template((), (TextError("cannot be read: it is nested too deeply", None),))
    except ValueError as error:  # a number of too many digits
        return Template((), (TextError(f"cannot be read: {error}", None),))
    return Template(tuple(reader.words), tuple(reader.wrong), () if reader.wrong else parts)


class _Reader:
    """Converts Jinja's tree into the parts of a template."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.wrong: list[TextError] = []

    def parts(self, body: Sequence[nodes.Node]) -> tuple[_Part, ...]:
        from jinja2 import nodes

        parts: list[_Part] = []
        for node in body:
            if isinstance(node, nodes.Output):
                parts += [part for item in node.nodes if (part := self._output(item)) is not None]
            elif isinstance(node, nodes.If):
                branches = [(self._condition(case.test), self.parts(case.body)) for case in (node, *node.elif_)]
                parts.append(_Choice((*branches, (_always, self.parts(node.else_)))))
            else:
                self._refuse(node)
        return tuple(parts)

    def _output(self, node: nodes.Node) -> _Part | None:
        from jinja2 import nodes

        if isinstance(node, nodes.TemplateData):
            return _Text(node.data, node.lineno)
        if isinstance(node, nodes.Const) and isinstance(node.value, str):
            return _Text(node.value, node.lineno)
        if isinstance(node, nodes.CondExpr):
            then, otherwise = (self._output(case) if case is not None else None for case in (node.expr1, node.expr2))
            branches = [(self._condition(node.test), then), (_always, otherwise)]
            return _Choice([(holds, () if part is None else (part,)) for holds, part in branches])
        word = self._word(node)
        if word is not None and word.name in CONDITIONS:
            self._wrong(f"writes {word.name}(), which is a condition: {{% if {word.name}() %}}", word.line)
        return word

    def _condition(self, node: nodes.Node, depth: int = 0) -> _Condition:
        from jinja2 import nodes

        if depth > _DEEPEST:
            raise RecursionError
        if isinstance(node, nodes.Not):
            inner = self._condition(node.node, depth + 1)
            return lambda decide: not inner(decide)
        if isinstance(node, nodes.And | nodes.Or):
            left, right = self._condition(node.left, depth + 1), self._condition(node.right, depth + 1)
            if isinstance(node, nodes.And):
                return lambda decide: left(decide) and right(decide)
            return lambda decide: left(decide) or right(decide)
        if isinstance(node, nodes.Const) and isinstance(node.value, bool):
            value = node.value
            return lambda decide: value
        word = self._word(node)
        if word is None:
            return lambda decide: False
        if word.name not in CONDITIONS:
            known = " and ".join(f"{name}()" for name in CONDITIONS)
            self._wrong(f"asks for {word.name} in a condition, where only {known} can stand", word.line)
        elif not isinstance(node, nodes.Call):
            self._wrong(f"asks for {word.name} without its parentheses: {word.name}()", word.line)
        return lambda decide: decide(word)

    def _word(self, node: nodes.Node) -> Word | None:
        from jinja2 import nodes

        called = node if isinstance(node, nodes.Call) else None
        named = called.node if called is not None else node
        if not isinstance(named, nodes.Name):
            self._refuse(node)
            return None
        name, line = named.name, node.lineno
        if name not in _WORDS:
            self._wrong(f"does not know '{name}'{nearest(name, _WORDS)}", line)
            return None
        positional = called.args if called is not None else []
        others = [*called.kwargs, called.dyn_args, called.dyn_kwargs] if called is not None else []
        texts = [arg.value for arg in positional if isinstance(arg, nodes.Const) and isinstance(arg.value, str)]
        least, most = int(name in OF_A_JOINT), int(name != RUN_STARTED_AT)
        if any(others) or len(texts) < len(positional) or not least <= len(texts) <= most:
            takes = f"one name in quotes: {name}('name')" if most else "nothing in parentheses"
            self._wrong(f"gives {name} something else than {takes}", line)
            return None
        word = Word(name, texts[0] if texts else None, line)
        self.words.append(word)
        return word

    def _refuse(self, node: nodes.Node) -> None:
        construct = _REFUSED.get(type(node).__name__, "something else")
        self._wrong(f"holds {construct}; it can hold {{% if %}} and {{{{ }}}} with {', '.join(_WORDS)}", node.lineno)

    def _wrong(self, message: str, line: int) -> None:
        self.wrong.append(TextError(message, line))


def _always(_: Decide) -> bool:
    return True


def _rendered(parts: Sequence[_Part], decide: Decide, write: Callable[[Word], str], line: int) -> tuple[list[str], int]:
    """Return the texts of ``parts``, of which the first begins on ``line`` of the result, and the line after them."""
    rendered: list[str] = []
    for part in parts:
        if isinstance(part, _Choice):
            chosen = next((then for holds, then in part.branches if holds(decide)), ())
            texts, line = _rendered(chosen, decide, write, line)
            rendered += texts
            continue
        text = part.text if isinstance(part, _Text) else write(part)
        # Omitted parts before it had lines, too.
        text = "\n" * (part.line - line) + text
        line += text.count("\n")
        rendered.append(text)
    return rendered, line
