"""The task by which an engine's workers copy rows into a table of the database, each call in a transaction of its own.

Nothing of this package is imported here: the workers may not have it.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPT = "rivet_attempt"
"""The column of a staging table with the number of the call that has copied the row."""

Refusal = tuple[str, str, str]
"""An error of the database about a row: its code, as SQLSTATE, its message, and the column if it names one."""

Result = tuple[int, int, dict[str, tuple[int, Any, Any]], Refusal | None]
"""The result of a call, pickled.

Its number, how many rows it has copied, of each column the number of NULLs with the least and the greatest value (None
where they are not known), and the error that the database has raised, if one.
"""

_MOST_BYTES = 2**26
"""How many bytes of rows are turned into text at a time."""
_LONGEST = 200
"""The longest text that is told as the least or the greatest of its column."""


def copy_rows(
    write: Callable[[int, Iterator[pa.RecordBatch]], Refusal | None], batches: Iterator[pa.RecordBatch]
) -> bytes:
    """Copy the rows of ``batches`` by ``write``, and return a ``Result``.

    ``write`` takes the number of the call and the rows, which it copies in one transaction, if rows may still be added
    to the table: a query says so, and locks what it reads until the end of the transaction. It returns an error that
    another attempt would have, too, and raises others, as of a lost connection.
    """
    attempt, bounds = secrets.randbits(62), _Bounds()
    parts = (part for batch in batches for part in _parts(batch))
    first = next(parts, None)
    if first is None:
        return pickle.dumps((attempt, 0, {}, None))
    refusal = write(attempt, bounds.of(chain([first], parts)))
    if refusal is not None:
        return pickle.dumps((attempt, 0, {}, refusal))
    return pickle.dumps((attempt, bounds.rows, bounds.collected(), None))


class _Bounds:
    """Of each column the number of NULLs, and the least and the greatest value where engines order them as Arrow."""

    def __init__(self) -> None:
        self.rows = 0
        self._nulls: dict[str, int] = {}
        self._values: dict[str, list[Any]] = {}
        self._unknown: set[str] = set()

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._add(batch)
            self.rows += batch.num_rows
            yield batch

    def _add(self, batch: pa.RecordBatch) -> None:
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
                bounds = pc.min_max(column).as_py()
            except (OverflowError, ValueError):  # a year that Python has not
                self._unknown.add(name)
                continue
            self._values.setdefault(name, []).extend((bounds["min"], bounds["max"]))

    def collected(self) -> dict[str, tuple[int, Any, Any]]:
        statistics = {}
        for name, nulls in self._nulls.items():
            values = self._values.get(name) if name not in self._unknown else None
            least, greatest = (min(values), max(values)) if values else (None, None)
            if isinstance(least, str) and max(len(least), len(str(greatest))) > _LONGEST:
                least = greatest = None
            statistics[name] = (nulls, least, greatest)
        return statistics


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in parts of at most about _MOST_BYTES."""
    if batch.nbytes <= _MOST_BYTES or batch.num_rows <= 1:
        if batch.num_rows:
            yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))
