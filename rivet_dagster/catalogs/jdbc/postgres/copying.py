"""The task by which an engine's workers copy rows into a table of the database, each call in a transaction of its own.

Nothing of this package is imported here: the workers may not have it.
"""

from __future__ import annotations

import pickle
import re
import secrets
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPT = "rivet_attempt"
"""The column of a staging table with the number of the call that has copied the row."""

Result = tuple[int, int, dict[str, tuple[int, Any, Any]], tuple[str, str, str] | None]
"""What a call returns, pickled.

Its number, how many rows it has copied, of each column the number of NULLs with the least and the greatest value (None
where they are not known), and the error that the database has raised, if one: SQLSTATE, message, column.
"""

_SPECIAL = "[\\\\\t\n\r]"
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_NULL = "\\N"
_MOST_BYTES = 2**26
"""How many bytes of rows are turned into text at a time."""
_LONGEST = 200
"""The longest text that is told as the least or the greatest of its column."""
_COLUMN = re.compile(r", column (.+?)(?:: |, line |$)")


def copy_rows(login: Mapping[str, Any], statement: str, fence: str, batches: Iterator[pa.RecordBatch]) -> bytes:
    """Copy the rows of ``batches``, and return a ``Result``.

    ``statement`` is the COPY, in the text format, of ATTEMPT and the columns of the batches in their order. The query
    ``fence`` returns a row as long as rows may still be added to the table; it locks what says so until the end of the
    transaction, in which all rows of the call are copied. An error that another attempt would have, too, is returned;
    that of a lost connection is raised.
    """
    import psycopg

    attempt, count, bounds = secrets.randbits(62), 0, _Bounds()
    parts = (part for batch in batches for part in _parts(batch))
    first = next(parts, None)
    if first is None:
        return pickle.dumps((attempt, 0, {}, None))
    try:
        with psycopg.connect(**login) as connection:
            with connection.cursor().copy(statement) as copy:
                for part in chain([first], parts):
                    bounds.add(part)
                    copy.write(_lines(attempt, part))
                    count += part.num_rows
            if connection.execute(fence).fetchone() is None:
                raise RuntimeError("the rows came too late: the table of staged rows is closed")
    except psycopg.Error as error:
        if error.sqlstate is None or error.sqlstate.startswith(("08", "57")):
            raise
        found = _COLUMN.search(error.diag.context or "")
        message = error.diag.message_primary or str(error)
        return pickle.dumps((attempt, 0, {}, (error.sqlstate or "", message, found[1] if found else "")))
    return pickle.dumps((attempt, count, bounds.found(), None))


class _Bounds:
    """Of each column the number of NULLs, and the least and the greatest value where engines order them as Arrow."""

    def __init__(self) -> None:
        self._nulls: dict[str, int] = {}
        self._values: dict[str, list[Any]] = {}
        self._unknown: set[str] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._nulls[name] = self._nulls.get(name, 0) + column.null_count
            kind = column.type
            ordered = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_temporal(kind)
            if name in self._unknown or not (ordered or pa.types.is_string(kind)) or column.null_count == len(column):
                continue
            if pa.types.is_timestamp(kind) and kind.tz is not None:
                column = column.cast(pa.timestamp(kind.unit, "UTC"))
            try:
                found = pc.min_max(column).as_py()
            except (OverflowError, ValueError):  # a year that Python has not
                self._unknown.add(name)
                continue
            self._values.setdefault(name, []).extend((found["min"], found["max"]))

    def found(self) -> dict[str, tuple[int, Any, Any]]:
        told = {}
        for name, nulls in self._nulls.items():
            values = self._values.get(name) if name not in self._unknown else None
            least, greatest = (min(values), max(values)) if values else (None, None)
            if isinstance(least, str) and max(len(least), len(str(greatest))) > _LONGEST:
                least = greatest = None
            told[name] = (nulls, least, greatest)
        return told


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in parts of at most about _MOST_BYTES."""
    if batch.nbytes <= _MOST_BYTES or batch.num_rows <= 1:
        if batch.num_rows:
            yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))


def _lines(attempt: int, batch: pa.RecordBatch) -> bytes:
    """Return the rows as lines of COPY's text format, the first value of each being ``attempt``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [pa.repeat(pa.scalar(str(attempt)), batch.num_rows), *map(_texts, batch.columns)]
    ends = pa.repeat(pa.scalar("\n"), batch.num_rows)
    rows = pc.binary_join_element_wise(*texts, "\t", null_handling="replace", null_replacement=_NULL)
    lines = pc.binary_join_element_wise(rows, ends, "")
    # The texts of an array lie one behind the other in its last buffer.
    data, offsets = lines.buffers()[2], lines.buffers()[1]
    last = int.from_bytes(memoryview(offsets)[4 * batch.num_rows : 4 * batch.num_rows + 4], "little")
    return memoryview(data)[:last].tobytes()


def _texts(column: pa.Array) -> pa.Array:
    """Return the texts of the values as the database reads them, with special characters escaped."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if v is None else f"\\\\x{v.hex()}" for v in column.to_pylist()], pa.string())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _escaped(pa.array([None if v is None else _array_text(v) for v in column.to_pylist()], pa.string()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _escaped(column.cast(pa.string()))
    return pc.cast(column, pa.string())


def _escaped(texts: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring_regex(texts, _SPECIAL)).as_py():
        return texts
    for character, escape in _ESCAPES:
        texts = pc.replace_substring(texts, character, escape)
    return texts


def _array_text(values: list[Any]) -> str:
    """Return the literal of an array of the database."""
    quoted = ['"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values if value is not None]
    found = iter(quoted)
    return "{" + ",".join("NULL" if value is None else next(found) for value in values) + "}"
