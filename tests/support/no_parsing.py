"""Detection of parsing: a context in which sqlglot's entry points raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from sqlglot.dialects.dialect import Dialect

WORDS_OF_THE_GENERATOR = {"json", "float"}
"""Names of types, which sqlglot itself parses whenever it generates a CAST."""


class Parsed(BaseException):
    """Raised when a text is parsed; not an Exception, so that no error handler catches it."""


@contextmanager
def nothing_parsed() -> Iterator[None]:
    """Raise Parsed when a text is parsed or tokenized."""
    ways_in = [(Dialect, "parse"), (Dialect, "parse_into"), (Dialect, "tokenize")]
    with patch.multiple(Dialect, **{name: _refusing(getattr(owner, name)) for owner, name in ways_in}):
        yield


def _refusing(way_in: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(dialect: Dialect, *arguments: Any, **options: Any) -> Any:
        if arguments[-1] in WORDS_OF_THE_GENERATOR:
            return way_in(dialect, *arguments, **options)
        raise Parsed(arguments[-1])

    return refuse
