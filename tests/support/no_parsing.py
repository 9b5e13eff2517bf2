"""Detection of parsing: a context in which sqlglot's tokenizer, where every reading of a text begins, raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from sqlglot.tokens import Token, Tokenizer

WORDS_OF_THE_GENERATOR = {"json", "float"}
"""Names of types, which sqlglot itself parses whenever it generates a CAST."""


class Parsed(BaseException):
    """Raised when a text is parsed; not an Exception, so that no error handler catches it."""


@contextmanager
def nothing_parsed() -> Iterator[None]:
    """Raise Parsed when a text is parsed or tokenized."""
    tokenize = Tokenizer.tokenize

    def refuse(tokenizer: Tokenizer, sql: str) -> list[Token]:
        if sql in WORDS_OF_THE_GENERATOR:
            return tokenize(tokenizer, sql)
        raise Parsed(sql)

    with patch.object(Tokenizer, "tokenize", refuse):
        yield
