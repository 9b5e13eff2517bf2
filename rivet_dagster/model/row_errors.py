"""Evaluation errors as data: the table of errors beside a target, and how a joint's query tells errors from rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FAIL, QUARANTINE = "fail", "quarantine"

SUFFIX = "__errors"
"""The end of the name of a table's error table, unless `errors_table` gives another one."""

QUERY_COLUMNS = ("joint", "code", "expression", "file", "line", "message", "row", "key")
"""The columns of the queries of ``RowErrors``; ``line`` is an INT, all others are STRINGs."""

ERROR_COLUMNS = (*QUERY_COLUMNS, "run_id", "version")
"""The columns of an error table, both further ones STRINGs."""


@dataclass(frozen=True, slots=True)
class MaxErrors:
    """The greatest number of errors with which a version is published: ``count``, or ``percent`` of rows and errors."""

    count: int | None = None
    percent: float | None = None

    def allows(self, errors: int, rows: int) -> bool:
        """Return whether that many errors beside that many good rows are within the limit.

        >>> MaxErrors(count=2).allows(2, 0), MaxErrors(percent=5.0).allows(6, 94)
        (True, False)
        """
        if self.count is not None:
            return errors <= self.count
        return self.percent is None or errors * 100 <= self.percent * (rows + errors)


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """The table of the same catalog in which the errors of a quarantining group are published with its rows."""

    table: str
    max_errors: MaxErrors | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RowErrors:
    """The two halves of a query in which the evaluation of a row may raise an error.

    ``good`` is the query's text without the rows whose evaluation fails. ``queries`` give those rows' errors, one query
    for each operator, with QUERY_COLUMNS; they read the same tables as the query's text does.
    """

    separable: Literal[True] = True
    good: str
    queries: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NotSeparable:
    """Why the errors of a query cannot be separated from its rows: a construct, and its line in the query's text."""

    separable: Literal[False] = False
    construct: str
    line: int
