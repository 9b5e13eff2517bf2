"""``row_values: false``: texts of engines and Python functions without the values of rows that they may quote."""

from __future__ import annotations

import re

from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.row_error import RowError

_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]*\]")
_OF_DECLARATIONS = "SQLSTATE: 42"
"""Spark's class of errors in the text of a query, which are found before any row is read."""

_QUOTING = frozenset({"RVT-503", "RVT-504", "RVT-520"})


def text_without_values(text: str, otherwise: str = "it failed") -> str:
    """Return the part of a message that certainly contains no value: the name of Spark's error condition, if any.

    >>> text_without_values("[CAST_INVALID_INPUT] The value 'ann@example.com' of the type STRING cannot be cast")
    '[CAST_INVALID_INPUT]; the rest of the message may hold values of rows (`row_values: false`)'
    """
    condition = _CONDITION.search(text)
    safe = condition[0] if condition else otherwise
    return f"{safe}; the rest of the message may hold values of rows (`row_values: false`)"


def error_without_values(error: RivetError) -> RivetError:
    """Return the error without values, if its text is that of an engine or a user's function that was reading rows."""
    if isinstance(error, RowError):
        others = [_without_values(diagnostic, "it failed") for diagnostic in error.others]
        return RowError.at([site.without_values() for site in error.sites], others)
    if _OF_DECLARATIONS in str(error.__cause__):
        return error
    cause = "it failed" if error.__cause__ is None else type(error.__cause__).__name__
    return RivetError.of(_without_values(diagnostic, cause) for diagnostic in error.diagnostics)


def _without_values(diagnostic: Diagnostic, cause: str) -> Diagnostic:
    if diagnostic.code not in _QUOTING:
        return diagnostic
    message = text_without_values(diagnostic.message, cause)
    return Diagnostic(
        diagnostic.code, message, diagnostic.joint, diagnostic.file, diagnostic.line, diagnostic.remediation
    )
