"""The short form of a check in annotations: ``kind`` or ``kind(arguments)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rivet_dagster.entry_points import check_kind
from rivet_dagster.errors import RivetError
from rivet_dagster.project.yaml_text import Located, annotation_value

_KIND = re.compile(r"([A-Za-z_]\w*)\s*")
_KEYED = re.compile(r"([A-Za-z_]\w*)\s*=(?![=>])\s*(.*)", re.DOTALL)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def check_text(text: str, line: int) -> Any:
    """Parse a check into the mapping that it would be in YAML. Raise ValueError.

    >>> check_text("not_null(a, b, severity=warn)", 1)
    {'type': 'not_null', 'severity': 'warn', 'columns': ['a', 'b']}
    """
    if text.startswith("{"):
        return annotation_value(text, line)
    match = _KIND.match(text)
    rest = text[match.end() :] if match else ""
    if match is None or (rest and rest[0] not in "(#"):
        raise ValueError("a check is written `kind` or `kind(arguments)`")
    check = Located(line)
    check["type"] = kind = match[1]
    positional = []
    for argument in _arguments(rest) if rest.startswith("(") else ():
        keyed = _KEYED.fullmatch(argument)
        if keyed is None:
            positional.append(annotation_value(argument, line, comments=False))
        elif keyed[1] in check:
            raise ValueError(f"`{keyed[1]}` is given twice")
        else:
            check[keyed[1]] = annotation_value(keyed[2], line, comments=False)
    if positional:
        _add_positional(check, kind, positional)
    return check


def _add_positional(check: Located, name: str, values: list[Any]) -> None:
    kind = _kind(name)
    if kind is None:
        return
    key = kind.positional
    if key is None:
        raise ValueError(f"the arguments of {name} have names, like `{name}({next(iter(kind.options))}=1)`")
    if key in check:
        raise ValueError(f"`{key}` is given twice")
    if key != "columns" and len(values) > 1:
        raise ValueError(f"{name} takes one argument without a name, its `{key}`; put a text with commas in quotes")
    check[key] = values if key == "columns" else values[0]


def _kind(name: str) -> Any:
    """Return the class of a kind of check; None for an unknown one, which is reported when the check is parsed."""
    try:
        return check_kind(name)
    except RivetError:
        return None


def _arguments(text: str) -> Iterator[str]:
    """Yield the arguments in the parentheses with which ``text`` begins; commas in quotes and brackets don't count."""
    begin, open_brackets, quote, skip = 1, "", "", False
    for index, character in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = character == "\\" and quote == '"'
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in "([{":
            open_brackets += character
        elif character in ")]}":
            if _CLOSING[open_brackets[-1]] != character:
                raise ValueError(f"'{character}' closes no bracket")
            open_brackets = open_brackets[:-1]
        if not quote and (not open_brackets or (character == "," and open_brackets == "(")):
            argument = text[begin:index].strip()
            begin = index + 1
            if argument or open_brackets or text[1:index].strip():
                yield _filled(argument)
        if not open_brackets:
            break
    if open_brackets:
        raise ValueError("a quote is not closed" if quote else "a bracket is not closed")
    if not re.fullmatch(r"\s*(#.*)?", text[begin:], re.DOTALL):
        raise ValueError("something stands after the closing parenthesis")


def _filled(argument: str) -> str:
    if not argument:
        raise ValueError("an argument is empty")
    return argument
