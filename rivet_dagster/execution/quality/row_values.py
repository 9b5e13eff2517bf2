"""Texts of engines and of Python functions without the values of rows that they may quote: ``row_values: false``."""

from __future__ import annotations

import re

from rivet_dagster.errors import Diagnostic, RivetError

_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]*\]")
_OF_DECLARATIONS = "SQLSTATE: 42"
"""Spark's class of errors in the text of a query, which it finds before it reads a row."""

_QUOTING = frozenset({"RVT-503", "RVT-504"})


def text_without_values(text: str, otherwise: str = "it failed") -> str:
    """Return the part of a message that is certain to hold no value: the name of Spark's condition, if it has one.

    >>> text_without_values("[CAST_INVALID_INPUT] The value 'ann@example.com' of the type STRING cannot be cast")
    '[CAST_INVALID_INPUT]; the rest of the message may hold values of rows (`row_values: false`)'
    """
    condition = _CONDITION.search(text)
    told = condition[0] if condition else otherwise
    return f"{told}; the rest of the message may hold values of rows (`row_values: false`)"


def error_without_values(error: RivetError) -> RivetError:
    """Return the error without values where the engine, or a user's function, has worded it while rows were read."""
    if _OF_DECLARATIONS in str(error.__cause__):
        return error
    cause = "it failed" if error.__cause__ is None else type(error.__cause__).__name__
    return RivetError.of(_without_values(one, cause) for one in error.diagnostics)


def _without_values(found: Diagnostic, cause: str) -> Diagnostic:
    if found.code not in _QUOTING:
        return found
    message = text_without_values(found.message, cause)
    return Diagnostic(found.code, message, found.joint, found.file, found.line, found.remediation)
