"""Templates in the SQL of joints: conditions and values in Jinja's syntax.

Jinja's parser reads them; nothing of a template is ever executed. What one may hold is listed here, and all else is an
error, so no template can loop, import, or reach an attribute of anything.
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
"""The words that speak of a sink, which their argument may name."""

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
    """A word of the templates' language on a line, and the name in parentheses behind it."""

    name: str
    argument: str | None
    line: int

    def __str__(self) -> str:
        return self.name if self.argument is None else f"{self.name}('{self.argument}')"


Decide = Callable[[Word], bool]
"""Whether a condition holds."""

_Condition = Callable[[Decide], bool]
_DEEPEST = 50


@dataclass(frozen=True)
class _Text:
    text: str
    line: int


@dataclass(frozen=True)
class _Choice:
    """The first branch whose condition holds."""

    branches: Sequence[tuple[_Condition, Sequence[_Part]]]


_Part = _Text | Word | _Choice


@dataclass(frozen=True)
class Template:
    """A template that has been read: its words in order, and all that is wrong with it."""

    words: tuple[Word, ...]
    wrong: tuple[TextError, ...]
    _parts: tuple[_Part, ...] = ()

    def render(self, decide: Decide, write: Callable[[Word], str]) -> str:
        """The text in which the conditions are as ``decide`` says and each value is what ``write`` gives.

        Whatever stays of the template stands on the line that it has there.
        """
        return "".join(_rendered(self._parts, decide, write, 1)[0])


def is_template(sql: str) -> bool:
    """Return whether ``sql`` holds a mark of Jinja's: all else is no template, and is left as it is."""
    return _MARKED.search(sql) is not None


def read_template(sql: str) -> Template:
    r"""What a text with marks means.

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
    """From Jinja's tree to the parts of a template."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.wrong: list[TextError] = []

    def parts(self, body: Sequence[nodes.Node]) -> tuple[_Part, ...]:
        from jinja2 import nodes

        found: list[_Part] = []
        for node in body:
            if isinstance(node, nodes.Output):
                found += [part for item in node.nodes if (part := self._output(item)) is not None]
            elif isinstance(node, nodes.If):
                branches = [(self._condition(one.test), self.parts(one.body)) for one in (node, *node.elif_)]
                found.append(_Choice((*branches, (_always, self.parts(node.else_)))))
            else:
                self._refuse(node)
        return tuple(found)

    def _output(self, node: nodes.Node) -> _Part | None:
        from jinja2 import nodes

        if isinstance(node, nodes.TemplateData):
            return _Text(node.data, node.lineno)
        if isinstance(node, nodes.Const) and isinstance(node.value, str):
            return _Text(node.value, node.lineno)
        if isinstance(node, nodes.CondExpr):
            then, otherwise = (self._output(one) if one is not None else None for one in (node.expr1, node.expr2))
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
        texts = [one.value for one in positional if isinstance(one, nodes.Const) and isinstance(one.value, str)]
        least, most = int(name in OF_A_JOINT), int(name != RUN_STARTED_AT)
        if any(others) or len(texts) < len(positional) or not least <= len(texts) <= most:
            takes = f"one name in quotes: {name}('name')" if most else "nothing in parentheses"
            self._wrong(f"gives {name} something else than {takes}", line)
            return None
        word = Word(name, texts[0] if texts else None, line)
        self.words.append(word)
        return word

    def _refuse(self, node: nodes.Node) -> None:
        what = _REFUSED.get(type(node).__name__, "something else")
        self._wrong(f"holds {what}; it can hold {{% if %}} and {{{{ }}}} with {', '.join(_WORDS)}", node.lineno)

    def _wrong(self, message: str, line: int) -> None:
        self.wrong.append(TextError(message, line))


def _always(_: Decide) -> bool:
    return True


def _rendered(parts: Sequence[_Part], decide: Decide, write: Callable[[Word], str], line: int) -> tuple[list[str], int]:
    """The texts of ``parts``, of which the first begins on ``line`` of the result, and the line behind them."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, _Choice):
            chosen = next((then for holds, then in part.branches if holds(decide)), ())
            texts, line = _rendered(chosen, decide, write, line)
            found += texts
            continue
        text = part.text if isinstance(part, _Text) else write(part)
        # What was left out before it had lines, too.
        text = "\n" * (part.line - line) + text
        line += text.count("\n")
        found.append(text)
    return found, line
