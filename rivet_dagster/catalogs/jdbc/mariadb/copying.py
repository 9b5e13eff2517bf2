"""How an engine's workers copy rows into a table of MariaDB: by INSERTs of many rows, each call in a transaction.

Nothing of this package is imported here: the workers may not have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1_000
"""How many rows a statement has at most."""
_LONGEST = 2**20
"""How many characters of rows a statement has at most, but for a single row."""
_LOST = frozenset({0, 1053, 1205, 1213, 1927, 2002, 2003, 2005, 2006, 2013, 2055})
"""Errors that another attempt need not have."""


def insert_rows(
    login: Mapping[str, Any], insert: str, fence: str, attempt: int, batches: Iterator[pa.RecordBatch]
) -> tuple[str, str, str] | None:
    """Copy the rows of ``batches``, as ``copy_rows`` has it; ``insert`` is the statement as far as VALUES.

    The error of a lost connection, or of a lock, is raised.
    """
    import pymysql

    connection = pymysql.connect(**{**login, "autocommit": False})
    try:
        with connection.cursor() as cursor:
            for batch in batches:
                refused = _not_a_number(batch)
                if refused is not None:
                    return "1264", "NaN and infinity are no numbers of the database", refused
                for statement in _statements(insert, attempt, batch):
                    cursor.execute(statement)
            cursor.execute(fence)
            if cursor.fetchone() is None:
                raise RuntimeError("the rows came too late: the table of staged rows is closed")
        connection.commit()
    except pymysql.err.Error as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        if code in _LOST:
            raise
        return str(code), str(error.args[1] if len(error.args) > 1 else error), ""
    finally:
        if connection.open:
            connection.close()
    return None


def _statements(insert: str, attempt: int, batch: pa.RecordBatch) -> Iterator[str]:
    columns = [_literals(column) for column in batch.columns]
    rows: list[str] = []
    length = 0
    for values in zip(*columns, strict=True):
        row = f"({attempt},{','.join(values)})"
        if rows and (len(rows) == _ROWS or length + len(row) > _LONGEST):
            yield insert + ",".join(rows)
            rows, length = [], 0
        rows.append(row)
        length += len(row)
    if rows:
        yield insert + ",".join(rows)


def _literals(column: pa.Array) -> Sequence[str]:
    """Return the values as the database reads them in a session without escapes in texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return ["NULL" if value is None else f"X'{value.hex()}'" for value in column.to_pylist()]
    if pa.types.is_boolean(kind):
        return ["NULL" if value is None else str(int(value)) for value in column.to_pylist()]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit))
    texts = pc.cast(column, pa.string()).to_pylist()
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return ["NULL" if text is None else text for text in texts]
    return ["NULL" if text is None else "'" + text.replace("'", "''") + "'" for text in texts]


def _not_a_number(batch: pa.RecordBatch) -> str | None:
    """Return the name of a column with NaN or infinity, if there is one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_floating(column.type) and pc.any(pc.invert(pc.is_finite(column))).as_py():
            return str(name)
    return None
