"""How an engine's workers copy rows into a table of PostgreSQL: by COPY, each call in a transaction of its own.

Nothing of this package is imported here: the workers may not have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_WAITS = (
    "SELECT set_config(name, '0', true) FROM pg_catalog.pg_settings "
    "WHERE name IN ('statement_timeout', 'transaction_timeout')"
)
"""Has a COPY last as long as the engine computes the rows; servers before 17 have the first setting alone."""
_SPECIAL = "[\\\\\t\n\r]"
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_NULL = "\\N"
_COLUMN = re.compile(r", column (.+?)(?:: |, line |$)")


def copy_lines(
    login: Mapping[str, Any], statement: str, fence: str, attempt: int, batches: Iterator[pa.RecordBatch]
) -> tuple[str, str, str] | None:
    """Copy the rows of ``batches``, as ``copy_rows`` has it, by ``statement``: a COPY in the text format.

    The error of a lost connection is raised.
    """
    import psycopg

    try:
        with psycopg.connect(**login) as connection:
            connection.execute(_WAITS)
            with connection.cursor().copy(statement) as copy:
                for batch in batches:
                    copy.write(_lines(attempt, batch))
            if connection.execute(fence).fetchone() is None:
                raise RuntimeError("the rows came too late: the table of staged rows is closed")
    except psycopg.Error as error:
        if error.sqlstate is None or error.sqlstate.startswith(("08", "57")):
            raise
        column = _COLUMN.search(error.diag.context or "")
        message = error.diag.message_primary or str(error)
        return error.sqlstate or "", message, column[1] if column else ""
    return None


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
        # Arrow's own text of a moment takes 20 times as long, and is that of another year after 32767.
        local = column.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit))
        return pc.binary_join_element_wise(pc.cast(local, pa.string()), "Z", "")
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
    texts = iter(quoted)
    return "{" + ",".join("NULL" if value is None else next(texts) for value in values) + "}"
