"""The columns of a table of MariaDB: how each is read exactly, and by which type of Spark.

Spark knows nothing of MariaDB: the types are declared for its reader, and the query makes each value one that the JDBC
driver returns as it is. By themselves a ``float`` would be rounded to six digits, a ``tinyint(1)`` be a truth value,
and a ``datetime`` be shifted by the zone of the JVM.
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

_COLLATION = "utf8mb4_nopad_bin"

_WHOLE = {
    "tinyint": ("tinyint", "smallint"),
    "smallint": ("smallint", "int"),
    "mediumint": ("int", "int"),
    "int": ("int", "bigint"),
    "bigint": ("bigint", "decimal(20,0)"),
}
"""Spark's types of whole numbers, with a sign and without."""

_TEXTS = frozenset("char varchar tinytext text mediumtext longtext".split())
_AS_TEXT = frozenset("enum set uuid inet4 inet6 time".split())
"""Types that Spark has not, and whose text is all of the value."""
_BYTES = frozenset("binary varbinary tinyblob blob mediumblob longblob".split())

_IS_DAY = "MONTH(value) > 0 AND DAYOFMONTH(value) > 0"
_DAY = f"{_IS_DAY} AND (value >= '1582-10-15' OR (value >= '0001-01-01' AND value < '1582-10-05'))"
_MOMENT = f"{_IS_DAY} AND value >= '1582-10-15'"
_NOT_A_DAY = "a date with zeros, or a day from October 5 to 14 of 1582"
_NOT_A_MOMENT = "a date with zeros, or one before October 15 of 1582"

_CASTABLE = {
    "signed": ("bigint", "SIGNED"),
    "unsigned": ("decimal(20,0)", "UNSIGNED"),
    "double": ("double", "DOUBLE"),
    "char": ("string", "CHAR CHARACTER SET utf8mb4"),
    "binary": ("binary", "BINARY"),
    "date": ("date", "DATE"),
    "datetime": ("timestamp_ntz", "DATETIME(6)"),
}
"""The types to which a user may cast, besides ``decimal(p, s)``, with Spark's."""

_MOST_DIGITS = 38
_DECIMAL = re.compile(r"decimal ?\( ?(\d{1,2})(?: ?, ?(\d{1,2}))? ?\)", re.IGNORECASE)

_FACTS = """
SELECT column_name, column_type, data_type, character_set_name, collation_name, numeric_precision, numeric_scale,
       extra, generation_expression
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""


@dataclass(frozen=True)
class MariadbColumn:
    """A column as the database declares it: ``type`` is all of its type, ``base`` the name of the type alone."""

    name: str
    type: str
    base: str
    charset: str | None
    collation: str | None
    precision: int | None
    scale: int | None
    extra: str = ""
    generated: str | None = None

    @property
    def is_filled(self) -> bool:
        """Whether the database fills it: numbers that count up, and expressions."""
        return "auto_increment" in self.extra.lower() or bool(self.generated)

    @property
    def is_text(self) -> bool:
        """Whether its values are texts that a collation compares."""
        return self.collation is not None

    @property
    def is_loose(self) -> bool:
        """Whether its collation takes different texts for equal."""
        return self.is_text and self.collation != _COLLATION

    @property
    def declared(self) -> str:
        """Its type with what makes its texts the same in another table."""
        if self.charset is None:
            return self.type
        return f"{self.type} CHARACTER SET {self.charset} COLLATE {self.collation}"


def wrong_casts(casts: Any) -> Iterator[Wrong]:
    """Yield an error for each type of ``casts`` to which values cannot be cast, and then be read exactly.

    >>> [wrong.message for wrong in wrong_casts({"a": "decimal(38, 9)", "b": "char", "c": "float"})]
    ["`casts` casts c to 'float'"]
    """
    for column, type_ in casts.items() if isinstance(casts, Mapping) else ():
        decimal = _DECIMAL.fullmatch(str(type_))
        fits = decimal is not None and int(decimal[2] or 0) <= int(decimal[1]) <= _MOST_DIGITS and decimal[1] != "0"
        if not fits and str(type_).lower() not in _CASTABLE:
            types = f"{', '.join(_CASTABLE)}, or decimal(p, s) of at most {_MOST_DIGITS} digits"
            message = f"`casts` casts {column} to {show(type_)}"
            yield Wrong("RVT-204", "options.casts", message, f"Cast it to one of {types}.")


def table_columns(connection: Connection, table: tuple[str, str]) -> list[MariadbColumn]:
    """Return the columns of the table of that schema and name, in order."""
    return [MariadbColumn(*row) for row in connection.execute(_FACTS, table)]


def read_columns(
    columns: Sequence[MariadbColumn], casts: Mapping[str, str], table: str
) -> tuple[list[ReadColumn], dict[str, Unreadable]]:
    """Return the columns that can be read, and the others; ``casts`` are types of the database by column.

    Raises RVT-403 for a cast of no column.
    """
    names = [column.name for column in columns]
    for name in casts:
        if name not in names:
            message = f"{table} has no column '{name}', which `casts` names{nearest(name, names)}"
            raise RivetError("RVT-403", message, remediation="Correct `casts` of the source's `options`.")
    read, unreadable = [], {}
    for column in columns:
        found = _cast(column, casts[column.name]) if column.name in casts else _exactly(column)
        if isinstance(found, Unreadable):
            unreadable[column.name] = found
        else:
            read.append(found)
    return read, unreadable


def _exactly(column: MariadbColumn) -> ReadColumn | Unreadable:
    """Return how a column is read so that no value changes.

    >>> _exactly(MariadbColumn("n", "bigint(20) unsigned", "bigint", None, None, 20, 0)).spark_type
    'decimal(20,0)'
    >>> _exactly(MariadbColumn("n", "decimal(65,2)", "decimal", None, None, 65, 2)).reason
    'is a decimal(65,2), and a DECIMAL of Spark has 38 digits'
    """
    base = column.base
    if column.type in ("tinyint(1)", "bit(1)"):
        return _truth(column)
    if base in _WHOLE:
        return _plain(column, _WHOLE[base]["unsigned" in column.type])
    if base == "decimal":
        if (column.precision or 0) > _MOST_DIGITS:
            why = f"is a {column.type}, and a DECIMAL of Spark has 38 digits"
            return _cannot(column, why, "decimal(38, 9)")
        return _plain(column, f"decimal({column.precision},{column.scale})")
    if base in ("float", "double"):
        return ReadColumn(SelectedColumn(column.name, "DOUBLE", "DOUBLE"), base)
    if base in _TEXTS:
        return ReadColumn(SelectedColumn(column.name, column.type, is_loose=column.is_loose), "string")
    if base in _AS_TEXT:
        return _cast(column, "char")
    if base in _BYTES:
        return _plain(column, "binary")
    if base == "bit":
        return _cast(column, "unsigned")
    if base == "year":
        return ReadColumn(SelectedColumn(column.name, "SIGNED", "SIGNED"), "smallint")
    if base == "date":
        return _checked(column, None, "DATE", _DAY, _NOT_A_DAY, "date")
    if base in ("datetime", "timestamp"):
        spark_type = "timestamp_ntz" if base == "datetime" else "timestamp"
        return _checked(column, None, "DATETIME(6)", _MOMENT, _NOT_A_MOMENT, spark_type)
    remedy = "Leave it out of `columns`, or have a view give its text, as by ST_AsText."
    return Unreadable(f"is of the type {column.type}, which Spark has not", remedy)


def _plain(column: MariadbColumn, spark_type: str) -> ReadColumn:
    return ReadColumn(SelectedColumn(column.name, column.type), spark_type)


def _truth(column: MariadbColumn) -> ReadColumn:
    selected = SelectedColumn(
        column.name, "SIGNED", "SIGNED", "value IN (0, 1)", _message(column, "other numbers than 0 and 1", "signed")
    )
    return ReadColumn(selected, "boolean")


def _cast(column: MariadbColumn, type_: str) -> ReadColumn:
    """Return how a column is read by a cast to a type that ``wrong_casts`` has nothing against."""
    if (decimal := _DECIMAL.fullmatch(type_)) is not None:
        digits = f"{decimal[1]},{decimal[2] or 0}"
        return ReadColumn(SelectedColumn(column.name, column.type, f"DECIMAL({digits})"), f"decimal({digits})")
    spark_type, cast = _CASTABLE[type_.lower()]
    if type_.lower() == "char":
        return ReadColumn(SelectedColumn(column.name, column.type, cast, is_loose=True), spark_type)
    if type_.lower() == "date":
        return _checked(column, cast, cast, _DAY, _NOT_A_DAY, spark_type)
    if type_.lower() == "datetime":
        return _checked(column, cast, cast, _MOMENT, _NOT_A_MOMENT, spark_type)
    return ReadColumn(SelectedColumn(column.name, column.type, cast), spark_type)


def _checked(
    column: MariadbColumn, cast: str | None, type_: str, condition: str, what: str, spark_type: str
) -> ReadColumn:
    selected = SelectedColumn(column.name, type_, cast, condition, _message(column, what, "char"))
    return ReadColumn(selected, spark_type)


def _message(column: MariadbColumn, what: str, type_: str) -> str:
    return f"the column {column.name} holds {what}, which Spark cannot read. {_remedy(column, type_)}"


def _cannot(column: MariadbColumn, reason: str, type_: str) -> Unreadable:
    return Unreadable(reason, _remedy(column, type_))


def _remedy(column: MariadbColumn, type_: str) -> str:
    return f"Have the database cast it: `options: {{casts: {{{column.name}: '{type_}'}}}}` of the source."
