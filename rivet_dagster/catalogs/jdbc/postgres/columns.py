"""The columns of a table of PostgreSQL: how each is read exactly, and by which type of Spark.

What the JDBC driver and Spark make of a type is no guide. By pgjdbc 42.7 and Spark 4.1, as measured, a ``numeric``
without precision is cut after 18 digits, a ``time`` after milliseconds, a ``timestamp`` is shifted by the zone of the
JVM, and infinity is a day of the year 9999.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.product import ReadColumn
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.relations import Unreadable
from rivet_dagster.sql.database_table import SelectedColumn

DIALECT = "postgres"

_PLAIN = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
    "text": "string",
    "varchar": "string",
    "bpchar": "string",
    "bytea": "binary",
}
"""Types whose values Spark has, by their names in ``pg_type``, and Spark's names."""

_AS_TEXT = frozenset(
    "uuid json jsonb xml inet cidr macaddr macaddr8 interval time timetz bit varbit name char tsvector tsquery "
    "point line lseg box path polygon circle pg_lsn citext hstore ltree".split()
)
"""Types that Spark has not, and whose text is all of the value; ranges and enums are others."""

_IN_ARRAYS = frozenset({"bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bpchar"})

# Constants of the column's own type: others would be converted for each row.
_SINCE_GREGORY = "value >= CAST('1582-10-15' AS {type}) AND value < CAST('infinity' AS {type})"
_BEFORE = "value > CAST('-infinity' AS {type}) AND value < CAST('1582-10-05' AS {type})"
_OF_OUR_TIME = "value >= CAST('0001-01-01' AS {type}) AND value < CAST('1582-10-05' AS {type})"
"""The JDBC driver has no days from October 5 to 14 of 1582, and of a ``timestamp`` no years before our time."""
_OF_TIME = {
    "date": ("date", f"{_SINCE_GREGORY} OR {_BEFORE}", "infinity, or a day from October 5 to 14 of 1582"),
    "timestamptz": ("timestamp", f"{_SINCE_GREGORY} OR {_BEFORE}", "infinity, or a day from October 5 to 14 of 1582"),
    "timestamp": (
        "timestamp_ntz",
        f"{_SINCE_GREGORY} OR {_OF_OUR_TIME}",
        "infinity, a day from October 5 to 14 of 1582, or a year BC",
    ),
}
"""By type: Spark's name, the condition for a value that arrives as it is, and which ones do not."""

_CASTABLE = {
    "boolean": "bool",
    "smallint": "int2",
    "integer": "int4",
    "bigint": "int8",
    "real": "float4",
    "double precision": "float8",
    "text": "text",
    "bytea": "bytea",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
}
"""The types to which a user may cast, besides ``numeric(p, s)``, with their names in ``pg_type``."""

_IS_NUMBER = "value <> CAST('NaN' AS numeric)"
_MOST_DIGITS = 38
_NUMERIC = re.compile(r"numeric ?\( ?(\d{1,2})(?: ?, ?(\d{1,2}))? ?\)", re.IGNORECASE)

_OF_TABLE = """
    SELECT attnum, attname, atttypid, atttypmod FROM pg_catalog.pg_attribute
    WHERE attrelid = %(table)s AND attnum > 0 AND NOT attisdropped
"""
_OF_RESULT = """
    SELECT number, name, type, modifier
    FROM unnest(%(names)s::text[], %(types)s::oid[], %(modifiers)s::int[]) WITH ORDINALITY
        AS described(name, type, modifier, number)
"""
_FACTS = """
WITH RECURSIVE typed(number, name, type, modifier) AS ({columns}
    UNION ALL
    SELECT number, name, typbasetype, CASE typtypmod WHEN -1 THEN modifier ELSE typtypmod END
    FROM typed JOIN pg_catalog.pg_type t ON t.oid = type WHERE typtype = 'd'
)
SELECT name, pg_catalog.format_type(type, modifier), t.typname, modifier, t.typtype::text, e.typname, e.typtype::text
FROM typed JOIN pg_catalog.pg_type t ON t.oid = type
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE t.typtype <> 'd'
ORDER BY number
"""
"""The columns of a table, or of a result, with their types: a domain with the one below it, arrays with their elements.
"""


@dataclass(frozen=True)
class PostgresColumn:
    """A column as the database declares it.

    ``type`` is its type in SQL, ``base`` the name in ``pg_type``, and ``element`` that of the elements of an array.
    ``kind`` is ``b`` for a base type, ``e`` an enum, ``r`` a range, ``m`` several ranges, ``c`` a composite one.
    """

    name: str
    type: str
    base: str
    modifier: int
    kind: str
    element: str | None = None
    element_kind: str | None = None


def wrong_casts(casts: Any) -> Iterator[Wrong]:
    """Yield an error for each type of ``casts`` to which values cannot be cast, and then be read exactly.

    >>> [wrong.message for wrong in wrong_casts({"a": "numeric(38, 9)", "b": "timestamptz", "c": "numeric(39, 9)"})]
    ["`casts` casts c to 'numeric(39, 9)'"]
    """
    for column, type_ in casts.items() if isinstance(casts, Mapping) else ():
        numeric = _NUMERIC.fullmatch(str(type_))
        fits = numeric is not None and int(numeric[2] or 0) <= int(numeric[1]) <= _MOST_DIGITS and numeric[1] != "0"
        if not fits and str(type_).lower() not in _CASTABLE:
            types = f"{', '.join(_CASTABLE)}, or numeric(p, s) of at most {_MOST_DIGITS} digits"
            message = f"`casts` casts {column} to {show(type_)}"
            yield Wrong("RVT-204", "options.casts", message, f"Cast it to one of {types}.")


def table_columns(connection: Connection, table: int) -> list[PostgresColumn]:
    """Return the columns of the table of that number, in order."""
    return [PostgresColumn(*row) for row in connection.execute(_FACTS.format(columns=_OF_TABLE), {"table": table})]


def result_columns(connection: Connection, described: Sequence[tuple[str, int, int]]) -> list[PostgresColumn]:
    """Return the columns of a result, of which the server tells names, numbers of types, and modifiers of these."""
    names, types, modifiers = (list(parts) for parts in zip(*described, strict=True)) if described else ([], [], [])
    given = {"names": names, "types": types, "modifiers": modifiers}
    return [PostgresColumn(*row) for row in connection.execute(_FACTS.format(columns=_OF_RESULT), given)]


def read_columns(
    columns: list[PostgresColumn], casts: Mapping[str, str], table: str, money_digits: int
) -> tuple[list[ReadColumn], dict[str, Unreadable]]:
    """Return the columns that can be read, and the others; ``casts`` are types of the database by column.

    ``money_digits`` is how many digits behind the point an amount of money has. Raises RVT-403 for a cast of no column.
    """
    names = [column.name for column in columns]
    for name in casts:
        if name not in names:
            message = f"{table} has no column '{name}', which `casts` names{nearest(name, names)}"
            raise RivetError("RVT-403", message, remediation="Correct `casts` of the source's `options`.")
    read, unreadable = [], {}
    for column in columns:
        found = _cast(column, casts[column.name]) if column.name in casts else _exactly(column, money_digits)
        if isinstance(found, Unreadable):
            unreadable[column.name] = found
        else:
            read.append(found)
    return read, unreadable


def _exactly(column: PostgresColumn, money_digits: int) -> ReadColumn | Unreadable:
    """Return how a column is read so that no value changes.

    >>> _exactly(PostgresColumn("amount", "numeric(10,2)", "numeric", (10 << 16) + 2 + 4, "b"), 2).spark_type
    'decimal(10,2)'
    >>> _exactly(PostgresColumn("amount", "numeric", "numeric", -1, "b"), 2).reason
    'is a numeric without precision, of which no DECIMAL of Spark holds all values'
    """
    if column.base in _PLAIN:
        return ReadColumn(SelectedColumn(column.name, column.type), _PLAIN[column.base])
    if column.base in _OF_TIME:
        return ReadColumn(_checked(column, column.base), _OF_TIME[column.base][0])
    if column.base == "numeric":
        return _numeric(column)
    if column.base == "money":
        return _cast(column, f"numeric(19, {money_digits})")
    if column.base == "oid":
        return _cast(column, "bigint")
    if column.base in _AS_TEXT or column.kind in ("e", "r", "m"):
        return _cast(column, "text")
    if column.element is not None:
        return _array(column)
    return _cannot(column, f"is of the type {column.type}, which Spark has not", "text")


def _numeric(column: PostgresColumn) -> ReadColumn | Unreadable:
    if column.modifier < 0:
        why = "is a numeric without precision, of which no DECIMAL of Spark holds all values"
        return _cannot(column, why, "numeric(38, 9)")
    precision, scale = _digits(column.modifier)
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    if precision > _MOST_DIGITS:
        return _cannot(column, f"is a {column.type}, and a DECIMAL of Spark has 38 digits", "numeric(38, 9)")
    type_ = f"numeric({precision}, {scale})"
    if _digits(column.modifier) != (precision, scale):
        return _cast(column, type_)
    return _number(column, None, f"decimal({precision},{scale})")


def _number(column: PostgresColumn, cast: str | None, spark_type: str) -> ReadColumn:
    message = _message(column, "NaN", "text")
    return ReadColumn(SelectedColumn(column.name, column.type, cast, _IS_NUMBER, message), spark_type)


def _digits(modifier: int) -> tuple[int, int]:
    """Return the precision and the scale of a numeric; since PostgreSQL 15 a scale has 11 bits and a sign."""
    return (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4) & 0x7FF ^ 0x400) - 0x400


def _array(column: PostgresColumn) -> ReadColumn | Unreadable:
    """Return how an array is read: it may have any number of dimensions, whatever the table declares."""
    element, kind = column.element, column.element_kind
    cast, spark_type = None, _PLAIN.get(element or "")
    if element == "numeric" and column.modifier >= 0:
        precision, scale = _digits(column.modifier)
        if not 0 <= scale <= precision <= _MOST_DIGITS:
            return _cannot(column, f"is of the type {column.type}, which Spark has not", "text")
        spark_type = f"decimal({precision},{scale})"
    elif element in _AS_TEXT or kind in ("e", "r", "m"):
        cast, spark_type = "text[]", "string"
    elif element not in _IN_ARRAYS:
        return _cannot(column, f"is of the type {column.type}, whose elements Spark has not", "text")
    selected = SelectedColumn(
        column.name,
        column.type,
        cast,
        only_if="ARRAY_NDIMS(value) = 1 OR CARDINALITY(value) = 0",
        otherwise=_message(column, "an array of several dimensions", "text"),
    )
    return ReadColumn(selected, f"array<{spark_type}>")


def _cast(column: PostgresColumn, type_: str) -> ReadColumn:
    """Return how a column is read by a cast to a type that ``wrong_casts`` has nothing against."""
    base = _CASTABLE.get(type_.lower(), "numeric")
    if base in _OF_TIME:
        return ReadColumn(_checked(column, base, type_), _OF_TIME[base][0])
    if (numeric := _NUMERIC.fullmatch(type_)) is not None:
        return _number(column, type_, f"decimal({numeric[1]},{numeric[2] or 0})")
    return ReadColumn(SelectedColumn(column.name, column.type, type_), _PLAIN[base])


def _checked(column: PostgresColumn, base: str, cast: str | None = None) -> SelectedColumn:
    _, condition, what = _OF_TIME[base]
    only_if = condition.format(type=base)
    return SelectedColumn(column.name, column.type, cast, only_if, _message(column, what, "text"))


def _message(column: PostgresColumn, what: str, type_: str) -> str:
    return f"the column {column.name} holds {what}, which Spark cannot read; {_remedy(column, type_)}"


def _cannot(column: PostgresColumn, reason: str, type_: str) -> Unreadable:
    return Unreadable(reason, _remedy(column, type_))


def _remedy(column: PostgresColumn, type_: str) -> str:
    return f"Have the database cast it: `options: {{casts: {{{column.name}: '{type_}'}}}}` of the source."
