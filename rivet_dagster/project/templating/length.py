"""The limits of a template's own text, which hold before it is parsed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

from rivet_dagster.model.text_lines import TextPlace
from rivet_dagster.project.templating.budget import LARGEST, LONGEST
from rivet_dagster.project.templating.words import TemplateError

MOST_TOKENS = 10_000
"""The most names, values and signs of Jinja's; a stretch of plain text counts as one."""


class Length(Extension):
    """Jinja's extension that counts what the parser reads while it reads it."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Return the text unchanged. Raises TemplateError for a long one; comments are no tokens of the parser."""
        if len(source) > LONGEST:
            raise TemplateError(f"has more than {LONGEST:,} characters", TextPlace(1, filename))
        if source.count("{#") > MOST_TOKENS:
            raise TemplateError(f"has more than {MOST_TOKENS:,} comments", TextPlace(1, filename))
        return source

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Yield the tokens. Raises TemplateError where there are too many, and for numbers that are too large."""
        try:
            for number, token in enumerate(stream):
                if number >= MOST_TOKENS:
                    message = f"has more than {MOST_TOKENS:,} names, values and signs of Jinja"
                    raise TemplateError(message, TextPlace(token.lineno, stream.filename))
                if _too_large(token.value):
                    raise _large(token, stream)
                yield token
        except TemplateError:
            raise
        except ValueError:  # a number of more digits than Python reads
            raise _large(stream.current, stream) from None


def _large(token: Token, stream: TokenStream) -> TemplateError:
    return TemplateError(f"holds a number of more than {LARGEST:,} bits", TextPlace(token.lineno, stream.filename))


def _too_large(value: str | float) -> bool:
    if isinstance(value, int):
        return value.bit_length() > LARGEST
    return isinstance(value, float) and math.isinf(value)
