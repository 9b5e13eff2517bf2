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
from support.three_engines import ZONE, DuckSide, Failure, SailSide, Side, SparkSide, difference, evaluate
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


@pytest.mark.parametrize("scale", [0, 4])
def test_sums_of_up_to_38_digits_are_sparks(spark: SparkSide, scale: int) -> None:
    """Beyond 28 digits Spark's sum has 38, and one that does not fit is an error."""
    sides, failures = (spark, DuckSide()), []
    kinds = pa.schema([("g", pa.int32()), ("x", pa.decimal128(38, scale))])
    sql = "SELECT g, sum(x) AS s FROM wide GROUP BY g"
    translation = translate(sql, "duckdb", {"wide": (("g", "int"), ("x", f"decimal(38,{scale})"))})
    for groups in ([[NINES, None, 1 - NINES], [NINES - 5, 5], [-NINES], [None]], [[NINES, 1]], [[-NINES, -NINES]]):
        rows = [(g, x) for g, group in enumerate(groups) for x in group]
        values = [None if x is None else Decimal(x).scaleb(-scale, Context(prec=38)) for _, x in rows]
        table = pa.table([[g for g, _ in rows], values], schema=kinds)
        for side in sides:
            side.give("wide", table)
        expected, result = spark.query(sql), sides[1].query(translation.sql)
        failures.append((isinstance(expected, Failure), isinstance(result, Failure)))
        if not isinstance(expected, Failure) and not isinstance(result, Failure):
            assert expected[0] == result[0] == ["int", f"decimal(38,{scale})"]
            assert by_first(expected[1], 1) == by_first(result[1], 1)
    assert failures == [(False, False), (True, True), (True, True)]


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
