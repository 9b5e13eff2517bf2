"""The messages of Sail's errors, which have neither the conditions nor the SQLSTATEs of Spark's."""

from __future__ import annotations

import re
from typing import Any

from rivet_dagster.engines.pyspark.messages import spark_error
from rivet_dagster.errors import QueryRefused, RivetError

_OF_ROWS = frozenset(
    {"ArithmeticException", "ArrayIndexOutOfBoundsException", "DateTimeException", "NumberFormatException"}
)
"""The classes of errors of rows, as far as Sail tells them."""

_OF_ROW = re.compile(r"(?i)\bdivision by zero|\bdivide by zero|\bcannot cast string|\bcast error|\boverflow\b")
"""Messages of errors of rows that have another class, as where Sail computes an expression before it runs the query."""

_OWN = re.compile(r"\b(RVT-\d{3}): ([^\"]+)")
_MISSING = re.compile(r"attribute ObjectName\(\[([^\]]*)\]\) is missing from the schema: cannot resolve attribute")
_IDENTIFIER = re.compile(r'Identifier\("([^"]*)"\)')
_POSITION = re.compile(r"\bfound .* at (\d+):\d+ expected", re.DOTALL)
_INTERNAL = re.compile(r'No field named "#\d+"')
"""A message about columns by the names that Sail gives them while it plans a query: its optimizer has lost one."""
_OTHER = "Run the joint on an engine with Spark (`remote: local`, or `master`), or write it otherwise."


def sail_error(error: Exception, remediation: str | None = None) -> RivetError | None:
    """Return RVT-329 for what Sail has not, RVT-520 for a row that cannot be evaluated, else what Spark's is.

    None for an exception that is none of the server. A ``remediation`` is to be passed if it was not a query that
    failed.
    """
    translated = spark_error(error, remediation)
    if not isinstance(translated, QueryRefused):
        return translated
    first = translated.diagnostics[0]
    if own := _OWN.search(first.message):
        return RivetError(own[1], own[2], remediation=_OTHER)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "UnsupportedOperationException" in kinds:
        return RivetError("RVT-329", f"Sail has not what this query uses: {first.message}", remediation=_OTHER)
    if _INTERNAL.search(first.message):
        return RivetError("RVT-329", f"Sail cannot plan this query: {first.message}", remediation=_OTHER)
    if missing := _MISSING.search(first.message):
        name = ".".join(_IDENTIFIER.findall(missing[1]))
        return RivetError("RVT-503", f"there is no column {name}", remediation=first.remediation)
    if remediation is None and (kinds & _OF_ROWS or _OF_ROW.search(first.message)):
        return RivetError("RVT-520", first.message, line=first.line)
    return translated


def line_of(sql: str, message: str) -> int | None:
    r"""Return the line of the query that a message tells by the number of a byte, or that alone has the name it tells.

    >>> line_of("SELECT 1\nFROM a b c", "invalid argument: found c at 18:19 expected ','")
    2
    >>> line_of("SELECT 1,\n  b FROM t", "there is no column t.b"), line_of("SELECT a", "it is wrong")
    (2, None)
    """
    told: Any = _POSITION.search(message)
    if told is not None:
        return sql.encode()[: int(told[1])].count(b"\n") + 1
    named = re.search(r"no column (?:.*\.)?(\S+)$|function: (\w+)$", message)
    if named is None:
        return None
    name = re.compile(rf"(?<!\w){re.escape(named[1] or named[2])}(?!\w)", re.IGNORECASE)
    lines = [number for number, line in enumerate(sql.splitlines(), 1) if name.search(line)]
    return lines[0] if len(lines) == 1 else None
