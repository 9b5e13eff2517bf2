"""YAML as documented: one document, the core schema of YAML 1.2, with the lines of every mapping's keys.

PyYAML provides the syntax events, whose meaning is decided here. No message quotes a value, as it may be a secret.

The values of plain YAML scalars, by the core schema of YAML 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from rivet_dagster.project.text_file import TextError, split_lines

Scalar = str | int | float | bool | None


class WrittenFloat(float):
    """A number that remembers how it is ``written``: as a variable of templates it is SQL, where ``1.10`` is exact."""

    written: str

    def __new__(cls, text: str) -> WrittenFloat:
        number = super().__new__(cls, text)
        number.written = text
        return number

    def __reduce__(self) -> tuple[type[WrittenFloat], tuple[str]]:
        return WrittenFloat, (self.written,)


_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MOST_DIGITS = 1000


def yaml_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar. Raise ValueError for a number with too many digits.

    >>> [yaml_scalar(text) for text in ("012", "0o14", "1e3", "NO", "on", "12:30", "2024-01-01", "true", "~")]
    [12, 12, 1000.0, 'NO', 'on', '12:30', '2024-01-01', True, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return int(_bounded(text))
    if _BASED.fullmatch(text):
        return int(_bounded(text), 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def written_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar as ``yaml_scalar`` does; a fraction remembers how it is written.

    >>> written_scalar("0.10"), written_scalar("0.10").written, written_scalar("10")
    (0.1, '0.10', 10)
    """
    value = yaml_scalar(text)
    return WrittenFloat(text) if isinstance(value, float) and _FLOAT.fullmatch(text) else value


def _bounded(text: str) -> str:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number has more than {_MOST_DIGITS} digits")
    return text


ReadScalar = Callable[[str], Scalar]
"""Returns the value of an unquoted scalar."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_REFUSED = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_QUOTED_TEXT = re.compile(r" '(?!<)[^']{2,}'")
_TAB_FIRST = re.compile(r" *\t")
_QUOTES = "Correct the YAML; a text with ': ' or ' #' in it, or that begins with one of {[@`%&*!|>, needs quotes."
_DEEPEST = 100
_MOST_ALIASED = 10_000


class YamlError(TextError):
    """An error in a YAML text, with a remediation if there is a specific one."""

    def __init__(self, message: str, line: int | None, remediation: str | None = None) -> None:
        super().__init__(message, line)
        self.remediation = remediation


class Located(dict[str, Any]):
    """A mapping with its position in the text, in lines counted from 1.

    ``lines`` are the lines of its keys, ``starts`` the lines on which the text of its values begins.
    """

    __slots__ = ("line", "lines", "starts")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
        self.starts: dict[str, int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Located, (self.line,), (None, {"lines": self.lines, "starts": self.starts}), None, iter(self.items())


def read_yaml(text: str, first_line: int = 1, scalar: ReadScalar = yaml_scalar) -> Any:
    """Return the value of the one document in ``text``, None where there is none. Raise YamlError.

    ``first_line`` is the line of a larger file on which ``text`` begins; ``scalar`` reads the unquoted scalars.

    >>> value = read_yaml("answer: NO\\nlimit: 012")
    >>> value, value.lines
    ({'answer': 'NO', 'limit': 12}, {'answer': 1, 'limit': 2})
    """
    refused = _REFUSED.search(text)
    if refused:
        line = first_line + len(split_lines(text[: refused.start()] + "x")) - 1
        raise YamlError(f"the character U+{ord(refused[0]):04X} must be written as an escape in double quotes", line)
    try:
        return _Document(iter(_Loader(text).get_event, None), first_line, scalar).read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        lines = split_lines(text) or [""]
        line = min(mark.line, len(lines) - 1) if mark else 0
        problem = _QUOTED_TEXT.sub("", error.problem or error.context or "")
        if _TAB_FIRST.match(lines[line]):
            raise YamlError("a tab stands in the indentation", first_line + line, "Indent with spaces.") from None
        raise YamlError(f"the YAML cannot be read: {problem}", first_line + line, _QUOTES) from None
    except yaml.YAMLError:
        raise YamlError("the YAML cannot be read", first_line) from None


def nested_lines(value: Located) -> dict[str, int]:
    """Return the lines of keys in mappings below the keys of ``value``, also of mappings in lists there.

    >>> nested_lines(read_yaml("options:\\n  retries: 3"))
    {'options.retries': 2}
    """
    lines_by_path: dict[str, int] = {}
    for key, item in value.items():
        for entry in item if isinstance(item, list) else [item]:
            if isinstance(entry, Located):
                lines_by_path |= {f"{key}.{name}": line for name, line in entry.lines.items()}
    return lines_by_path


def plain(value: Any) -> Any:
    """Return the value with plain dicts and lists."""
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


class _Document:
    def __init__(self, events: Iterator[Any], first_line: int, scalar: ReadScalar) -> None:
        self._events = events
        self._read_scalar = scalar
        self._first_line = first_line
        self._anchors: dict[str, tuple[Any, int] | None] = {}  # None while the anchored value is being read
        self._nodes = 0  # an alias counts as many nodes as its value
        self._aliased = 0

    def read(self) -> Any:
        next(self._events)
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            return None
        value = self._value(next(self._events), 0)
        next(self._events)
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise self._error("a second document begins; a file holds one", event)
        return value

    def _error(self, message: str, event: Any) -> YamlError:
        return YamlError(message, self._line(event))

    def _line(self, event: Any) -> int:
        return int(event.start_mark.line) + self._first_line

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            raise self._error("tags (a word after '!') are not read; put a text that begins with '!' in quotes", event)
        if depth > _DEEPEST:
            raise self._error(f"lists and mappings are nested more than {_DEEPEST} deep", event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        before = self._nodes
        self._nodes += 1
        if isinstance(event, yaml.ScalarEvent):
            value: Any = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                value.append(self._value(item, depth + 1))
        else:
            value = self._mapping(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._nodes - before
        return value

    def _scalar(self, event: Any) -> Any:
        if event.implicit[0]:
            try:
                return self._read_scalar(event.value)
            except ValueError as error:
                raise self._error(str(error), event) from None
        if not event.value.isascii() and any("\ud800" <= c <= "\udfff" for c in event.value):
            raise self._error("an escape stands for half a character", event)
        return event.value

    def _mapping(self, event: Any, depth: int) -> Located:
        value = Located(self._line(event))
        while not isinstance(item := next(self._events), yaml.MappingEndEvent):
            key = self._key(item)
            if key in value:
                raise self._error(f"the key '{key}' is repeated, first given on line {value.lines[key]}", item)
            value.lines[key] = self._line(item)
            item = next(self._events)
            value[key] = self._value(item, depth + 1)
            is_block = isinstance(item, yaml.ScalarEvent) and item.style in ("|", ">")
            value.starts[key] = self._line(item) + is_block
        return value

    def _key(self, event: Any) -> str:
        if not isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
            raise self._error("a key must be a text, not a list or a mapping", event)
        key = self._value(event, 0)
        if not isinstance(key, str):
            raise self._error("a key must be a text; put numbers, true, false and null in quotes", event)
        if key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
            raise self._error("YAML 1.2 has no merge key '<<'; repeat the keys", event)
        return key

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise self._error("an alias names no anchor; put a text that begins with '*' in quotes", event)
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise self._error("an alias stands inside its own anchor", event)
        value, size = anchored
        self._nodes += size
        self._aliased += size
        if self._aliased > _MOST_ALIASED:
            raise self._error(f"aliases stand for more than {_MOST_ALIASED} values", event)
        return value


_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)
_BLOCK = re.compile(r"[|>][-+0-9]*")


def annotation_value(text: str, line: int, *, comments: bool = True, scalar: ReadScalar = yaml_scalar) -> Any:
    """Parse the value; one or several bare words, even with colons, are a text. Raise ValueError.

    ``comments`` says whether `` #`` begins a comment in a bare text, as it does in YAML; ``scalar`` reads unquoted
    values.

    >>> [annotation_value(text, 1) for text in ("12", "Note: see below", "[a, b]", "{a: 1}", "'12'", "true # yes")]
    [12, 'Note: see below', ['a', 'b'], {'a': 1}, '12', True]
    """
    if text[:1] in ("[", "{", "'", '"'):
        return read_yaml(text, line, scalar)
    bare = _COMMENT.sub("", text).strip() if comments else text.strip()
    if not bare:
        raise ValueError("there is no value")
    if _BLOCK.fullmatch(bare):
        raise ValueError("a value stands on the line of its key; longer ones are for YAML files")
    return scalar(bare)
