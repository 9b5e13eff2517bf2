"""One expression or query on Spark, DuckDB and Sail: values, types and errors, row by row."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

ZONE = "Europe/Berlin"
GUARD = "RVT-329"
"""In the message of an error by which a translation refuses single values."""

_DUCKDB = {
    "TINYINT": "tinyint", "SMALLINT": "smallint", "INTEGER": "int", "BIGINT": "bigint", "FLOAT": "float",
    "DOUBLE": "double", "VARCHAR": "string", "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP WITH TIME ZONE": "timestamp", "BLOB": "binary", "HUGEINT": "hugeint",
}  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """An error in place of a value."""

    message: str

    @property
    def guarded(self) -> bool:
        """Whether it refuses a value for which nothing is proven."""
        return GUARD in self.message


def plain(value: Any) -> Any:
    """Return a value such that equal values are those that Spark's rows would show alike.

    >>> plain(float("nan")) == plain(float("nan")), plain(0.0) == plain(-0.0)
    (True, False)
    """
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def columns_of(table: pa.Table) -> list[list[Any]]:
    """Return the values of each column; dates and times, which may be out of Python's range, as numbers."""
    found = []
    for column in table.columns:
        column = column.cast(_numbers(column.type)) if _numbers(column.type) != column.type else column
        found.append([plain(value) for value in column.to_pylist()])
    return found


def _numbers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_numbers(kind.value_type))
    return pa.int64() if pa.types.is_timestamp(kind) else pa.int32() if pa.types.is_date(kind) else kind


def duckdb_type(kind: Any) -> str:
    """Return Spark's name of a type of DuckDB."""
    text = str(kind)
    if text.endswith("[]"):
        return f"array<{duckdb_type(text[:-2])}>"
    return _DUCKDB.get(text, text.lower().replace(", ", ","))


def with_zoneless(session: Any, table: pa.Table) -> Any:
    """Return a frame of the rows, in which times without a zone have the type TIMESTAMP_NTZ."""
    if not table.num_rows:  # of which a client of Connect makes no frame
        one = pa.table([pa.nulls(1, kind) for kind in table.schema.types], schema=table.schema)
        return with_zoneless(session, one).where("1 = 0")
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        return session.createDataFrame(table)
    finally:
        session.conf.set("spark.sql.timestampType", "TIMESTAMP_LTZ")


class SparkSide:
    """Spark of this process."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        for name, value in {
            "spark.sql.session.timeZone": ZONE,
            "spark.sql.subexpressionElimination.enabled": False,
            "spark.sql.leafNodeDefaultParallelism": 1,
            # Rows that are given stay a table, so that no expression is evaluated by the optimizer.
            "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
        }.items():
            spark.conf.set(name, value)

    def use_zone(self, zone: str) -> None:
        """Set the time zone of the session."""
        self.spark.conf.set("spark.sql.session.timeZone", zone)

    def give(self, name: str, table: pa.Table) -> None:
        """Make a table known."""
        with_zoneless(self.spark, table).createOrReplaceTempView(name)

    def query(self, sql: str) -> tuple[list[str], list[list[Any]]] | Failure:
        """Return the types and the values of each column of a query."""
        try:
            frame = self.spark.sql(sql)
            return [kind for _, kind in frame.dtypes], columns_of(frame.toArrow())
        except ERRORS as error:
            return Failure(str(error))

    def evaluate(self, expressions: Sequence[str], ids: Sequence[int]) -> list[tuple[str, list[Any]] | Failure]:
        """Return the type and the values of each expression over the table ``args``, errors in place of some."""
        found = self._whole(expressions)
        if not isinstance(found, Failure):
            return found
        try:
            failing = self._failing(expressions)
        except ERRORS as error:  # of the analyzer, which names one of the expressions
            if len(expressions) == 1:
                return [Failure(str(error))]
            return [self.evaluate([expression], ids)[0] for expression in expressions]
        guarded = [
            f"CASE WHEN id NOT IN ({', '.join(map(str, bad))}) THEN {expression} END" if bad else expression
            for expression, bad in zip(expressions, failing, strict=True)
        ]
        rest = self._whole(guarded)
        assert not isinstance(rest, Failure), rest
        return [
            (kind, [Failure("a row") if n in bad else value for n, value in zip(ids, values, strict=True)])
            for (kind, values), bad in zip(rest, failing, strict=True)
        ]

    def _whole(self, expressions: Sequence[str]) -> list[tuple[str, list[Any]]] | Failure:
        items = ", ".join(f"({text}) AS c{n}" for n, text in enumerate(expressions))
        found = self.query(f"SELECT id, {items} FROM args")
        if isinstance(found, Failure):
            return found
        kinds, (ids, *columns) = found
        order = sorted(range(len(ids)), key=ids.__getitem__)
        return [(kind, [c[n] for n in order]) for kind, c in zip(kinds[1:], columns, strict=True)]

    def _failing(self, expressions: Sequence[str]) -> list[list[int]]:
        """Return for each expression the ids of the rows on which it fails, each evaluated alone."""
        items = ", ".join(f"({text}) AS c{n}" for n, text in enumerate(expressions))
        plan = self.spark.sql(f"SELECT id, {items} FROM args")._jdf.queryExecution().optimizedPlan()
        catalyst = self.spark._jvm.org.apache.spark.sql.catalyst.expressions
        sequence = getattr(catalyst, "package$AttributeSeq")(plan.child().output())
        data, bind = plan.child().data(), catalyst.BindReferences.bindReference
        rows = [data.apply(position) for position in range(data.size())]
        bound = [bind(plan.projectList().apply(n), sequence, False) for n in range(len(expressions) + 1)]
        numbers = [int(bound[0].eval(row)) for row in rows]
        return [[n for n, row in zip(numbers, rows, strict=True) if _fails(each, row)] for each in bound[1:]]


def _fails(expression: Any, row: Any) -> bool:
    try:
        expression.eval(row)
    except ERRORS:
        return True
    return False


ERRORS = (Py4JJavaError, PySparkException)


class DuckSide:
    """DuckDB in this process."""

    dialect = "duckdb"

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.use_zone(ZONE)
        self.tables: dict[str, pa.Table] = {}

    def use_zone(self, zone: str) -> None:
        """Set the time zone of the session."""
        self.connection.execute(f"SET TimeZone = '{zone}'")

    def give(self, name: str, table: pa.Table) -> None:
        """Make a table known."""
        self.tables[name] = table
        self.connection.register(name, table)

    def query(self, sql: str) -> tuple[list[str], list[list[Any]]] | Failure:
        """Return the types and the values of each column of a query."""
        try:
            relation = self.connection.sql(sql)
            kinds = [duckdb_type(kind) for kind in relation.types]
            return kinds, columns_of(relation.to_arrow_table())
        except (duckdb.Error, pa.ArrowException) as error:
            return Failure(str(error))


class SailSide:
    """A server of Sail."""

    dialect = "sail"

    def __init__(self, session: Any) -> None:
        self.session = session

    def use_zone(self, zone: str) -> None:
        """Set the time zone of the session."""
        self.session.conf.set("spark.sql.session.timeZone", zone)

    def give(self, name: str, table: pa.Table) -> None:
        """Make a table known."""
        with_zoneless(self.session, table).createOrReplaceTempView(name)

    def query(self, sql: str) -> tuple[list[str], list[list[Any]]] | Failure:
        """Return the types and the values of each column of a query."""
        try:
            frame = self.session.sql(sql)
            return [kind for _, kind in frame.dtypes], columns_of(frame.toArrow())
        except (PySparkException, pa.ArrowException, Exception) as error:  # a client of Connect raises any
            return Failure(str(error))


Side = DuckSide | SailSide


def evaluate(side: Side, sql: str, ids: Sequence[int]) -> tuple[str, list[Any]] | Failure:
    """Return the type and the values of a query's second column by the ids in its first, errors in place of some."""
    found = side.query(sql)
    if not isinstance(found, Failure):
        by_id = dict(zip(*found[1], strict=True))
        return found[0][1], [by_id[n] for n in ids]
    if len(ids) == 1:
        return found
    kind, values = "", []
    for n in ids:
        alone = side.query(f"SELECT * FROM ({sql}) AS t WHERE id = {n}")
        if isinstance(alone, Failure):
            values.append(alone)
        else:
            kind = alone[0][1]
            values.append(alone[1][1][0] if alone[1][1] else Failure("no row"))
    return kind, values


def difference(
    expected: tuple[str, list[Any]] | Failure, found: tuple[str, list[Any]] | Failure, allowed: str | None = None
) -> str | None:
    """Return how an engine differs from Spark: another type or value, an error for a value, or a value for an error.

    An error in place of a value is allowed if it says RVT-329, or what ``allowed`` matches.
    """

    def is_allowed(error: Failure) -> bool:
        return error.guarded or (allowed is not None and re.search(allowed, error.message, re.IGNORECASE) is not None)

    if isinstance(expected, Failure):
        return None if isinstance(found, Failure) else f"a value in place of an error: {expected.message[:300]}"
    if isinstance(found, Failure):
        return None if is_allowed(found) else f"an error: {found.message[:200]}"
    if found[0] not in (expected[0], ""):
        return f"the type {found[0]} and not {expected[0]}"
    for n, (mine, theirs) in enumerate(zip(expected[1], found[1], strict=True)):
        if isinstance(theirs, Failure):
            if not isinstance(mine, Failure) and not is_allowed(theirs):
                return f"row {n}: an error and not {mine!r}: {theirs.message[:200]}"
        elif isinstance(mine, Failure) or mine != theirs:
            return f"row {n}: {theirs!r} and not {mine!r}"
    return None


def rows_of(found: tuple[list[str], list[list[Any]]], names: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Return the types and the rows of a result as sorted texts."""
    return list(found[0]), sorted(map(repr, zip(*found[1], strict=True)))


def tables_of(given: Mapping[str, pa.Table], kinds: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, Any]:
    """Return the columns of tables as ``translate`` takes them."""
    return {name: tuple(kinds[name]) for name in given}
