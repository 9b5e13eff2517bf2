"""The errors of DuckDB as RivetErrors, with the line of the query that they are about."""

from __future__ import annotations

import re

import duckdb

from rivet_dagster.errors import RivetError
from rivet_dagster.secrets.redaction import redacted

_LINE = re.compile(r"^LINE (\d+):", re.MULTILINE)
_NAMED = re.compile(r'(?:column|Table with name|function with the name|Values list) "?([\w.]+)"?')
_OWN = re.compile(r"(RVT-\d{3}):? (.*)", re.DOTALL)
_MEMORY = "Raise the engine's `memory_limit`, or have room in its `temp_directory`."


def duckdb_error(error: duckdb.Error, sql: str | None = None, skipped: int | None = 0) -> RivetError:
    """Return the error of a query ``sql`` whose text begins after ``skipped`` lines of what DuckDB got.

    ``skipped`` is None where DuckDB got a translation, whose lines are others: then the line is that of the one place
    of a name in the message, if there is one.
    """
    message = str(error).strip()
    if own := _OWN.search(message):
        return RivetError(own[1], own[2].strip())
    remedy = _MEMORY if isinstance(error, duckdb.OutOfMemoryException) else None
    line = None
    if sql is not None:
        told = None if skipped is None else _line_told(message, sql, skipped)
        line = _line_of_name(message, sql) if told is None else told
    return RivetError("RVT-503", redacted(message), line=line, remediation=remedy)


def _line_told(message: str, sql: str, skipped: int) -> int | None:
    found = _LINE.search(message)
    if found is None:
        return None
    line = int(found[1]) - skipped
    return line if 1 <= line <= sql.count("\n") + 1 else None


def _line_of_name(message: str, sql: str) -> int | None:
    """Return the only line of a text with the name that a message is about.

    >>> _line_of_name('Binder Error: Referenced column "nowhere" not found', "SELECT 1 AS v,\\n  nowhere AS w")
    2
    """
    found = _NAMED.search(message)
    if found is None:
        return None
    name = re.compile(rf"(?<!\w){re.escape(found[1])}(?!\w)", re.IGNORECASE)
    lines = [number for number, line in enumerate(sql.split("\n"), 1) if name.search(line)]
    return lines[0] if len(lines) == 1 else None
