"""Of all functions of Spark: the errors of a query are those that Spark raises for each row alone, by its conditions.

The calls are the examples of Spark's own documentation (DESCRIBE FUNCTION). Each argument that may be a column becomes
one, and takes extreme and wrong values of its type, and of other types, one argument at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.spark import WITH_CODE, WITHOUT_CODE
from support.spark_errors import SETTINGS, condition_of
from support.torture import TORTURE

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.row_errors import NotSeparable
from rivet_dagster.sql.parsing.known_query import NON_DETERMINISTIC, spark_functions
from rivet_dagster.sql.row_errors.aggregates import is_aggregate
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.row_errors.separation import separate
from rivet_dagster.sql.row_errors.token_ranges import Code, Range

RAISED = (PySparkException, Py4JError)

VALUES = {
    "string": r"""
    '' | ' ' | 'x' | '0' | '5' | '-1' | '1.5' | '99999999999' | '2026-02-30' | '2026-01-31' | '25:61:00' | '(' | '%zz'
    | '{' | '[1' | 'a b' | 'é' | '\\\\' | '$9' | 'a,b' | 'NaN' | 'utf-8' | 'true' | '1e400'
    """,
    "tinyint": "0Y | 1Y | -1Y | 127Y | -128Y",
    "smallint": "0S | 1S | -1S | 32767S | -32768S",
    "int": "0 | 1 | -1 | 2 | 13 | 64 | 2147483647 | -2147483648",
    "bigint": "0L | 1L | -1L | 64L | 99999999999L | 9223372036854775807L | -9223372036854775808L",
    "float": "0F | 1e38F | FLOAT('NaN')",
    "double": "0D | -1D | 1.5D | 1e30D | 1e300D | -1e300D | DOUBLE('NaN') | DOUBLE('Infinity')",
    "decimal(38,0)": f"0BD | {'9' * 38}BD | -{'9' * 38}BD",
    "decimal(10,2)": " | ".join(f"CAST({value} AS DECIMAL(10, 2))" for value in ("0", "99999999.99", "-1.5")),
    "boolean": "true | false",
    "date": "DATE'2026-01-31' | DATE'0001-01-01' | DATE'9999-12-31' | DATE'1582-10-10'",
    "timestamp": "TIMESTAMP'2026-01-31 10:00:00' | TIMESTAMP'9999-12-31 23:59:59.999999'",
    "timestamp_ntz": "TIMESTAMP_NTZ'2026-01-31 10:00:00' | TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    "binary": "X'' | X'FF' | X'31'",
    "void": "NULL",
}
"""The values that an argument takes, by its type."""

OTHER_TYPES = {
    "string": ("int", "double", "binary", "date", "boolean"),
    "int": ("string", "bigint", "double", "decimal(38,0)"),
    "bigint": ("string", "double", "decimal(38,0)", "int"),
    "float": ("string",),
    "double": ("string", "decimal(38,0)", "bigint"),
    "decimal(10,2)": ("string", "bigint", "double"),
    "date": ("string", "timestamp"),
    "timestamp": ("string", "date", "timestamp_ntz"),
    "timestamp_ntz": ("string", "timestamp"),
    "boolean": ("string",),
    "binary": ("string",),
}
"""The types that an argument of another type has in its place."""

TOO_LARGE = {
    "-2147483648": "array_insert element_at try_element_at".split(),
    "2147483647": "array_insert array_repeat format_number lpad repeat rpad space".split(),
}
"""Values with which a function takes all memory, or ends the Java process."""

CALLS = """
aes_encrypt('x', '0000111122223333', 'GCM', 'DEFAULT', X'000000000000000000000000', 'more')
aes_decrypt(X'00', '0000111122223333', 'GCM', 'DEFAULT', 'more')
bigint('5')
binary('x')
boolean('true')
cbrt(27D)
date('2026-01-31')
decimal('5')
degrees(1D)
double('5')
float('5')
int('5')
make_timestamp(2026, 1, 31, 10, 0, 1.5, 'UTC')
parse_url('http://a.b/c?d=1', 'QUERY', 'd')
smallint('5')
string(5)
timestamp('2026-01-31')
tinyint('5')
to_char(X'31', 'utf-8')
to_timestamp_ntz('2026-01-31', 'yyyy-MM-dd')
try_to_timestamp('2026-01-31', 'yyyy-MM-dd')
try_variant_get(parse_json('{"a": "x"}'), '$.a', 'int')
unix_timestamp('2026-01-31', 'yyyy-MM-dd')
variant_get(parse_json('{"a": "x"}'), '$.a', 'int')
""".strip().splitlines()
"""Calls of functions whose documentation has no example for them, or none that stands alone."""

NEWER = """
collect_union counter_diff current_path from_base32 hmac is_valid_variant jaro_winkler_similarity localtime measure
time_bucket time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds
timestamp_nanos to_base32 try_variant_array_append try_variant_insert try_variant_set tuple_difference_double
tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_agg_double
tuple_intersection_agg_integer tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double
tuple_intersection_theta_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_sketch_estimate_double
tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
tuple_sketch_theta_integer tuple_union_agg_double tuple_union_agg_integer tuple_union_double tuple_union_integer
tuple_union_theta_double tuple_union_theta_integer unix_nanos variant_array_append variant_delete variant_insert
variant_set variant_strip_nulls vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance
vector_norm vector_normalize vector_sum
""".split()
"""Functions of Spark 4.2 and 4.3 that are not classified: like unknown ones they are refused where rows may fail."""


@dataclass(frozen=True)
class Case:
    """A call whose arguments are the columns ``a0``, ``a1``... of given types, and rows of values for them."""

    expression: str
    types: tuple[str, ...]
    rows: list[list[str]]

    def relation(self, *rows: int) -> str:
        """Return the relation of all rows, or of these, with their numbers as ``i``."""
        chosen = rows or range(len(self.rows))
        values = ", ".join(f"({', '.join([str(row), *self.rows[row]])})" for row in chosen)
        return f"VALUES {values} AS t(i, {', '.join(f'a{column}' for column in range(len(self.types)))})"


@pytest.fixture(scope="module")
def spark(application: PySparkEngine) -> Iterator[SparkSession]:
    """Yield a session that evaluates rows of literals neither ahead nor with compiled code."""
    session = application.session()
    settings = {"spark.sql.alwaysInlineCommonExpr": "true", "spark.sql.variant.pushVariantIntoScan": "false"}
    for name, value in (SETTINGS | WITHOUT_CODE | settings).items():
        session.spark.conf.set(name, value)
    yield session.spark
    session.close()


@pytest.fixture(scope="module")
def compiled(spark: SparkSession) -> SparkSession:
    """Return a session that compiles, as Spark does by default."""
    session = spark.newSession()
    for name, value in (SETTINGS | WITH_CODE).items():
        session.conf.set(name, value)
    return session


def test_every_function_is_known(spark: SparkSession) -> None:
    """A function that Spark lists is one of the classified, or named here: those of a new version show here."""
    names = {name for (name,) in spark.sql("SHOW FUNCTIONS").collect() if re.fullmatch(r"\w+", name)}
    assert sorted(names - spark_functions() - set(NEWER)) == []


FEW = "element_at from_utc_timestamp parse_url to_date to_number".split()


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("name", sorted(spark_functions() - NON_DETERMINISTIC) if TORTURE else FEW)
def test_errors_are_those_of_each_row(name: str, spark: SparkSession, compiled: SparkSession) -> None:
    """A row has an error if Spark raises one for it alone, with that condition; no other row has one."""
    if is_aggregate(name) or not spark.catalog.functionExists(name):
        return
    wrong = [line for case in _cases(spark, name) for line in _differences(spark, compiled, case)]
    assert wrong == []


def _differences(spark: SparkSession, compiled: SparkSession, case: Case) -> Iterator[str]:
    errors = separate(f"SELECT {case.expression} AS x FROM t", QueryLocation("joint"))
    if isinstance(errors, NotSeparable):
        return
    session = compiled if TORTURE else spark
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW t AS SELECT * FROM {case.relation()}")
    found: dict[int, list[str]] = {}
    for error in (
        error for query in (errors.queries if errors is not None else ()) for error in session.sql(query).collect()
    ):
        found.setdefault(json.loads(error.row)["i"], []).append(error.code)
    raised = _raised(spark, case)
    seen = set()
    for row, values in enumerate(case.rows):
        ours, interpreted = found.get(row, []), raised.get(row, [])
        if ours == interpreted and not (TORTURE and ours and tuple(ours) not in seen):
            continue
        # Compiled code, by which Spark computes tables, is what counts where it differs from interpreted code.
        seen.add(tuple(ours))
        query = compiled.sql(f"SELECT {case.expression} AS x FROM {case.relation(row)}")
        expected = _condition_of(lambda query=query: query._jdf.queryExecution().toRdd().count())
        if ours != expected:
            yield f"{case.expression} of {', '.join(values)}: {ours}, Spark raises {expected}"


def _raised(spark: SparkSession, case: Case) -> dict[int, list[str]]:
    """Return Spark's condition for each row that fails, by evaluating the expression itself, without any job."""
    plan = spark.sql(f"SELECT {case.expression} AS x FROM {case.relation()}")._jdf.queryExecution().optimizedPlan()
    rows, expressions = plan.child(), spark._jvm.org.apache.spark.sql.catalyst.expressions
    columns = getattr(expressions, "package$AttributeSeq")(rows.output())
    bound = expressions.BindReferences.bindReference(plan.projectList().head(), columns, False)
    raised = {row: _condition_of(lambda row=row: bound.eval(rows.data().apply(row))) for row in range(len(case.rows))}
    return {row: condition for row, condition in raised.items() if condition}


def _condition_of(action: object) -> list[str]:
    try:
        action()
    except RAISED as error:
        return [condition_of(error)]
    return []


def _cases(spark: SparkSession, name: str) -> Iterator[Case]:
    """Yield calls of a function, each with rows of one list of types."""
    seen = set()
    for arguments in _examples(spark, name):
        expression, values, types = _with_columns(spark, name, arguments)
        if not values or (expression, types) in seen:
            continue
        seen.add((expression, types))
        for given, rows in _rows(name, values, types).items():
            case = Case(expression, given, rows)
            if _type(spark, f"{expression} AS x FROM {case.relation()}") is not None:
                yield case


def _examples(spark: SparkSession, name: str) -> Iterator[list[str]]:
    """Yield the arguments of calls of a function."""
    lines = "\n".join(line for (line,) in spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect())
    documented = re.findall(r"^\s*> SELECT (.*?);\s*$", lines, re.DOTALL | re.MULTILINE)
    for text in (*documented, *(call for call in CALLS if call.startswith(f"{name}("))):
        code = Code.of(" ".join(text.split("\n")))
        is_call = code.word(0) == name.upper() and code.partner.get(1) == len(code.tokens) - 1 > 2
        if is_call:
            yield [code.of_range(part) for part in code.by_commas(Range(2, len(code.tokens) - 1))]


def _with_columns(spark: SparkSession, name: str, arguments: Sequence[str]) -> tuple[str, list[str], tuple[str, ...]]:
    """Return a call in which each argument that may be a column is one, and the values and types of these columns."""
    texts, values, types = [], [], []
    for position, argument in enumerate(arguments):
        kind = None if re.search("->|=>", argument) else _type(spark, argument)
        others = ", ".join("a" if i == position else other for i, other in enumerate(arguments))
        if kind is None or _type(spark, f"{name}({others}) FROM (SELECT {argument} AS a)") is None:
            texts.append(argument)
            continue
        texts.append(f"a{len(values)}")
        values.append(argument)
        types.append(kind)
    return f"{name}({', '.join(texts)})", values, tuple(types)


def _rows(name: str, values: list[str], types: tuple[str, ...]) -> dict[tuple[str, ...], list[list[str]]]:
    """Return rows by their types, in each of which one value is another than in the example."""
    rows = {types: [values]}
    for position, kind in enumerate(types):
        base = "decimal(10,2)" if kind.startswith("decimal") else kind
        others = [(kind, f"CAST(NULL AS {kind})")] if kind != "void" else []
        for other in (base, *OTHER_TYPES.get(base, ())) if base in VALUES else ():
            for value in VALUES[other].split(" | "):
                if name not in TOO_LARGE.get(value := value.strip(), ()):
                    same = other == base != kind
                    others.append((kind if same else other, f"try_cast({value} AS {kind})" if same else value))
        for other, value in others:
            given = (*types[:position], other, *types[position + 1 :])
            rows.setdefault(given, []).append([*values[:position], value, *values[position + 1 :]])
    return rows


def _type(spark: SparkSession, select: str) -> str | None:
    """Return the type of the first column of a SELECT; None if Spark refuses it."""
    try:
        return str(spark.sql(f"SELECT {select}").schema[0].dataType.simpleString())
    except RAISED:
        return None
