"""What the lists of proven constructs say of DuckDB and Sail holds, by Spark's own results for each type of argument.

A construct is on a list because it passes here: values, types and errors are Spark's. By day each is tried with a few
rows of a few types; ``make torture`` tries all types with hundreds.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from support.proven_constructs import Construct, aggregates, arguments_of, constructs, of_entry, windows
from support.sail import sail_session
from support.three_engines import (
    ZONE,
    DuckSide,
    Failure,
    SailSide,
    Side,
    SparkSide,
    difference,
    evaluate,
    rows_of,
)  # fmt: skip
from support.torture import TORTURE, examples

from rivet_dagster.sql.translation import translate
from rivet_dagster.sql.translation.proven import SAME, SCALAR, Entry, Support, support_of

ROWS = examples(12, 300)
PARTS = 8
"""The lists are tried in so many parts: one for each engine by day, all of them each night."""
KNOWN_ERRORS: dict[tuple[str, str], str] = {}
"""The errors of engines, by parts of their messages, for values of which Spark has a result that wraps around."""


@pytest.fixture(scope="module")
def spark(engine: Any) -> Iterator[SparkSide]:
    session = engine.session()
    yield SparkSide(session.spark.newSession())
    session.close()


@pytest.fixture(scope="module")
def sail() -> Iterator[Side]:
    with sail_session() as session:
        yield SailSide(session)


@pytest.fixture(scope="module", params=["duckdb", "sail"])
def side(request: pytest.FixtureRequest) -> Side:
    return DuckSide() if request.param == "duckdb" else request.getfixturevalue("sail")


def chosen(found: Sequence[Construct]) -> list[Construct]:
    """Return all constructs at length; by day one of each entry, of changing types."""
    if TORTURE:
        return list(found)
    by_entry: dict[tuple[str, tuple[str, ...]], list[Construct]] = defaultdict(list)
    for construct in found:
        by_entry[construct.entry.name, construct.entry.types].append(construct)
    number = random.Random(7)
    return [number.choice(several) for several in by_entry.values()]


def differences(
    some: Sequence[Construct], spark: SparkSide, side: Side, support: Support, rows: int = ROWS
) -> list[str]:
    """Return how an engine differs from Spark in expressions over boundary values of their types."""
    by_types: dict[tuple[str, ...], list[Construct]] = defaultdict(list)
    for construct in some:
        by_types[construct.types].append(construct)
    wrong = []
    for types, alike in sorted(by_types.items()):
        table = arguments_of(types, rows)
        ids = list(range(table.num_rows))
        columns = (("id", "int"), *((f"c{n}", kind) for n, kind in enumerate(types, 1)))
        spark.give("args", table)
        side.give("args", table)
        for construct, expected in zip(alike, spark.evaluate([c.text for c in alike], ids), strict=True):
            translation = translate(f"SELECT id, {construct.text} AS c FROM args", support, {"args": columns})
            if translation.refusals:
                wrong.append(f"{construct.text} over {types} is refused: {translation.refusals[0].construct}")
                continue
            assert translation.columns is not None
            allowed = KNOWN_ERRORS.get((side.dialect, construct.entry.name))
            told = difference(expected, evaluate(side, translation.sql, ids), allowed)
            if told is None and not isinstance(expected, Failure) and translation.columns[1][1] != expected[0]:
                told = f"the type {translation.columns[1][1]} is told, and not {expected[0]}"
            if told is not None:
                wrong.append(f"{construct.text} over {types}: {told}")
    return wrong


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("part", range(PARTS))
def test_listed_functions_and_operators_are_sparks(spark: SparkSide, side: Side, part: int) -> None:
    support = support_of(side.dialect)
    wrong = differences(chosen(list(constructs(support)))[part::PARTS], spark, side, support)
    assert not wrong, "\n".join(text[:300] for text in wrong)


@pytest.mark.nightly
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_listed_functions_of_times_are_sparks_in_each_time_zone(spark: SparkSide, side: Side, zone: str) -> None:
    support = support_of(side.dialect)
    found = [construct for construct in constructs(support) if construct.has_times]
    for each in (spark, side):
        each.use_zone(zone)
    try:
        wrong = differences(found, spark, side, support, rows=100)
    finally:
        for each in (spark, side):
            each.use_zone(ZONE)
    assert found
    assert not wrong, "\n".join(text[:300] for text in wrong)


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("part", range(2))
def test_listed_aggregates_and_window_functions_are_sparks(spark: SparkSide, side: Side, part: int) -> None:
    support = support_of(side.dialect)
    wrong = []
    by_types: dict[tuple[str, ...], list[tuple[str, bool]]] = defaultdict(list)
    for types, text in [*aggregates(support), *windows(support)]:
        by_types[types].append((text, "OVER" in text))
    for types, texts in sorted(by_types.items())[part::2]:
        table = arguments_of(types, ROWS, exact=True)
        columns = (("id", "int"), *((f"c{n}", kind) for n, kind in enumerate(types, 1)))
        spark.give("args", table)
        side.give("args", table)
        for grouped in (True, False):
            some = [text for text, is_window in texts if is_window != grouped]
            if not some:
                continue
            items = ", ".join(f"{text} AS a{n}" for n, text in enumerate(some))
            sql = f"SELECT id % 3 AS g, {items} FROM args" + (" GROUP BY 1" if grouped else "")
            sql = sql if grouped else sql.replace("id % 3 AS g", "id")
            expected = spark.query(sql)
            translation = translate(sql, support, {"args": columns})
            assert translation.refusals == (), (sql, translation.refusals)
            found = side.query(translation.sql)
            if isinstance(expected, Failure) or isinstance(found, Failure):
                wrong.append(f"{sql} over {types}: {expected if isinstance(expected, Failure) else found}")
                continue
            for position, text in enumerate(["id", *some]):
                mine, theirs = (by_first(values, position) for _, values in (expected, found))
                kinds = expected[0][position], found[0][position], (translation.columns or ())[position][1]
                if mine != theirs or len(set(kinds)) > 1:
                    wrong.append(f"{text} over {types}: {theirs} ({kinds}) and not {mine}")
    assert not wrong, "\n".join(text[:300] for text in wrong)


NINES = 10**38 - 1


def decimal_of(unscaled: int | None, scale: int) -> Decimal | None:
    return None if unscaled is None else Decimal(unscaled).scaleb(-scale, Context(prec=38))


@pytest.mark.parametrize("scale", [0, 4, 38])
def test_a_sum_that_may_exceed_38_digits_is_sparks_or_an_error(spark: SparkSide, side: Side, scale: int) -> None:
    """Beyond 28 digits Spark's sum has 38, and one that does not fit is an error."""
    kinds = pa.schema([("g", pa.int32()), ("x", pa.decimal128(38, scale))])
    sql = "SELECT g, sum(x) AS s FROM wide GROUP BY g"
    translation = translate(sql, side.dialect, {"wide": (("g", "int"), ("x", f"decimal(38,{scale})"))})
    outcomes = []
    for groups in (
        [[NINES // 2, -NINES // 3, None, 7], [1, -1], [NINES * 9 // 10], [-3], [None], [None, None]],
        [[NINES, None, 1 - NINES], [NINES - 5, 5], [-NINES], [None]],
        [[NINES, 1]],
        [[-NINES, -NINES]],
        [[NINES] * 4],  # a number of 128 bits has wrapped around to one of 38 digits
    ):
        rows = [(g, x) for g, group in enumerate(groups) for x in group]
        table = pa.table([[g for g, _ in rows], [decimal_of(x, scale) for _, x in rows]], schema=kinds)
        for each in (spark, side):
            each.give("wide", table)
        expected, result = spark.query(sql), side.query(translation.sql)
        outcomes.append(("error" if isinstance(expected, Failure) else "rows", outcome(expected, result)))
    second = "alike" if side.dialect == "duckdb" else "guarded"  # Sail refuses a sum that may be one too great
    assert outcomes == [("rows", "alike"), ("rows", second), *[("error", "error")] * 3]


def outcome(
    expected: tuple[list[str], list[list[Any]]] | Failure, result: tuple[list[str], list[list[Any]]] | Failure
) -> str:
    if isinstance(result, Failure):
        return "error" if isinstance(expected, Failure) else "guarded" if result.guarded else result.message
    if isinstance(expected, Failure):
        return "rows in place of an error"
    same = expected[0] == result[0] and by_first(expected[1], 1) == by_first(result[1], 1)
    return "alike" if same else f"{result} and not {expected}"


@pytest.mark.parametrize("precision", range(1, 39) if TORTURE else (1, 8, 9, 18, 19, 28, 29, 32, 38))
def test_sums_of_each_precision_are_sparks(spark: SparkSide, side: Side, precision: int) -> None:
    number = random.Random(precision)
    scales = sorted({0, precision // 2, precision})
    greatest = 10**precision - 1
    bound = min(greatest, NINES // 200)  # so that fifty of them have a sum

    def values() -> list[int | None]:
        drawn = [number.randrange(-(10 ** number.randint(1, precision)), 10**precision) for _ in range(40)]
        return [None, *(max(-bound, min(bound, x)) for x in (0, 1, -1, greatest, -greatest, greatest // 3, *drawn))]

    unscaled = {scale: values() for scale in scales}
    groups = [n % 5 for n in range(46)] + [5]
    columns = {"id": pa.array(range(len(groups)), pa.int32()), "g": pa.array(groups, pa.int32())}
    for scale, drawn in unscaled.items():
        kind = pa.decimal128(precision, scale)
        columns[f"x{scale}"] = pa.array([decimal_of(x, scale) for x in (*drawn[1:], drawn[0])], kind)
    sums = ", ".join(f"sum(x{scale}) AS s{scale}" for scale in scales)
    window = "(PARTITION BY g ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
    moving = ", ".join(f"sum(x{scale}) OVER {window} AS s{scale}" for scale in scales)
    filtered = f"sum(x{scales[-1]}) FILTER (WHERE g <> 1) AS s"
    for each in (spark, side):
        each.give("sums", pa.table(columns))
    known = {
        "sums": (("id", "int"), ("g", "int"), *((f"x{scale}", f"decimal({precision},{scale})") for scale in scales))
    }
    for sql in (
        f"SELECT g, {sums} FROM sums GROUP BY g",
        f"SELECT g, {filtered} FROM sums GROUP BY g",
        f"SELECT id, {moving} FROM sums",
    ):
        translation = translate(sql, side.dialect, known)
        assert translation.refusals == ()
        expected, result = spark.query(sql), side.query(translation.sql)
        assert not isinstance(expected, Failure), expected
        assert not isinstance(result, Failure), result
        assert rows_of(result) == rows_of(expected)
        assert [kind for _, kind in translation.columns or ()] == expected[0]


@pytest.mark.parametrize("precision", range(12, 24) if TORTURE else (12, 15, 18, 23))
def test_averages_of_decimals_are_sparks(spark: SparkSide, sail: Side, precision: int) -> None:
    """Of the averages many end on a 5 behind the last digit: those of 32 and of 160 odd numbers."""
    number = random.Random(precision)
    greatest, rows = 10**precision - 1, []
    for g in range(examples(100, 2_000)):
        size = 10 ** number.randint(1, precision)
        first = number.randrange(-size, size)
        several = number.choice((1, 2, 3, 7, 8, 32, 32, 125, 160))
        rows += [(g, max(-greatest, min(greatest, first + number.randrange(2)))) for _ in range(several)]
    rows += [(-1, greatest), (-1, greatest), (-2, -greatest), (-2, None), (-3, None)]
    for scale in (0, 2, precision):
        kind = pa.decimal128(precision, scale)
        columns = [pa.array([g for g, _ in rows], pa.int32()), pa.array([decimal_of(x, scale) for _, x in rows], kind)]
        for each in (spark, sail):
            each.give("averages", pa.table(columns, names=["g", "x"]))
        for sql in (
            "SELECT g, avg(x) AS a FROM averages GROUP BY g",
            "SELECT g % 7 AS g, avg(x) FILTER (WHERE g % 2 = 0) AS a FROM averages GROUP BY g % 7",
            "SELECT g, avg(x) OVER (PARTITION BY g) AS a FROM averages",
        ):
            known = {"averages": (("g", "int"), ("x", f"decimal({precision},{scale})"))}
            translation = translate(sql, "sail", known)
            expected, result = spark.query(sql), sail.query(translation.sql)
            assert not isinstance(expected, Failure), expected
            assert not isinstance(result, Failure), result
            assert rows_of(result) == rows_of(expected)
            assert (translation.columns or ())[1][1] == expected[0][1]


def test_a_filter_of_an_aggregate_over_a_window_is_refused_as_by_spark(spark: SparkSide) -> None:
    spark.give("t", pa.table({"g": pa.array([1, 2], pa.int32()), "x": pa.array([1, 2], pa.int32())}))
    sql = "SELECT sum(x) FILTER (WHERE x > 1) OVER (PARTITION BY g) AS s FROM t"
    refused = spark.query(sql)
    assert isinstance(refused, Failure)
    assert "filter predicate is not supported" in refused.message
    for engine in ("duckdb", "sail"):
        assert translate(sql, engine, {"t": (("g", "int"), ("x", "int"))}).refusals[0].construct == "FILTER with OVER"


def test_set_operations_keep_as_many_equal_rows_as_on_spark(spark: SparkSide, side: Side) -> None:
    columns = (("k", "int"), ("s", "string"))
    rows = [(1, "a"), (None, None), (2, None), (None, "a")]
    for name, numbers in {"left": (3, 2, 1, 0), "right": (1, 3, 0, 2)}.items():
        each = [row for row, number in zip(rows, numbers, strict=True) for _ in range(number)]
        keys, texts = zip(*each, strict=True)
        table = pa.table({"k": pa.array(keys, pa.int32()), "s": pa.array(texts, pa.string())})
        spark.give(f"{name}_rows", table)
        side.give(f"{name}_rows", table)
    known = {"left_rows": columns, "right_rows": columns}
    for word in ("UNION", "EXCEPT", "INTERSECT"):
        for sql in (
            f"TABLE left_rows {word} ALL TABLE right_rows",
            f"TABLE left_rows {word} TABLE right_rows",
            f"SELECT k FROM right_rows {word} ALL SELECT 1L AS other {word} ALL SELECT k FROM left_rows",
            f"SELECT s, k FROM right_rows {word} ALL SELECT s, 1L AS n FROM left_rows ORDER BY s, k LIMIT 3",
        ):
            translation = translate(sql, side.dialect, known)
            expected, result = spark.query(sql), side.query(translation.sql)
            assert not isinstance(expected, Failure), expected
            assert not isinstance(result, Failure), result
            assert rows_of(result) == rows_of(expected), sql
            assert [kind for _, kind in translation.columns or ()] == expected[0]


@pytest.mark.parametrize("precision", [11, 24])
def test_other_averages_of_decimals_are_refused(precision: int) -> None:
    known = {"t": (("x", f"decimal({precision},2)"),)}
    refusal = translate("SELECT avg(x) AS a FROM t", "sail", known).refusals[0]
    assert refusal.construct == f"avg(decimal({precision},2))"


def by_first(values: Sequence[Sequence[Any]], position: int) -> dict[Any, Any]:
    """Return a column by the values of the first; the order of a list that is collected is anyone's."""
    column = [sorted(v, key=repr) if isinstance(v, list) else v for v in values[position]]
    return dict(zip(values[0], column, strict=True))


MUTANTS = {
    "duckdb": (
        Entry("hash", ("int",), "int", SAME),
        Entry("dayofweek", ("date",), "int", "CAST(dayofweek(_1) AS INT)"),
        Entry("/", ("int", "int"), "double", "_1 / _2"),
        Entry("cast-int", ("double",), "int", SAME),
        Entry("substring", ("string", "int", "int"), "string", SAME),
        Entry("length", ("string",), "int", "length(_1)"),
        Entry("upper", ("string",), "string", SAME),
        Entry("array_distinct", ("array<int>",), "array<int>", "list_distinct(_1)"),
    ),
    "sail": (
        Entry("+", ("int", "int"), "int", SAME),
        Entry("cast-string", ("double",), "string", SAME),
        Entry("round", ("double", "<count>"), "double", SAME),
        Entry("hour", ("timestamp",), "int", SAME),
        Entry("datediff", ("date", "date"), "int", SAME),
    ),
}


def test_an_entry_that_is_wrong_is_found(spark: SparkSide, side: Side) -> None:
    support = support_of(side.dialect)
    for mutant in MUTANTS[side.dialect]:
        scalars = {**support.entries[SCALAR], mutant.name: (mutant,)}
        wrong = replace(support, entries={**support.entries, SCALAR: scalars})
        assert differences(list(of_entry(mutant)), spark, side, wrong, rows=200), mutant
