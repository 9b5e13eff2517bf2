"""Conditions of failing expressions that raise no exception, against the general one, for which Spark evaluates them.

Values near the ends of all types, in each pair of types that Spark allows, in one query for each kind of expression.
"""

from collections.abc import Iterator
from itertools import product

import pytest
from pyspark.errors import PySparkException
from support.joint_by_joint import QUICK

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.sql.row_errors.fallible import fallible
from rivet_dagster.sql.row_errors.raising import raises
from rivet_dagster.sql.row_errors.token_ranges import ExpressionText

VALUES = {
    "TINYINT": ["-128", "0", "127", "7"],
    "SMALLINT": ["-32768", "0", "32767", "300"],
    "INT": ["-2147483648", "0", "2147483647", "70000"],
    "BIGINT": ["-9223372036854775808", "0", "9223372036854775807", "253402300800"],
    "FLOAT": ["NaN", "-Infinity", "0.0", "3.4e38"],
    "DOUBLE": ["NaN", "Infinity", "-0.0", "1e300"],
    "DECIMAL(5, 2)": ["-999.99", "0.00", "999.99", "0.01"],
    "DECIMAL(38, 0)": ["-" + "9" * 38, "0", "9" * 38, "12345"],
    "DECIMAL(38, 18)": ["-" + "9" * 20, "0.000000000000000000", "0.000000000000000001", "9" * 20],
    "STRING": ["12", " 1.5 ", "x", ""],
    "DATE": ["0001-01-01", "2026-02-28", "9999-12-31", "1970-01-01"],
    "TIMESTAMP": ["0001-01-01 00:00:00", "2026-02-28 12:00:00", "9999-12-31 23:59:59", "1970-01-01 00:00:00"],
    "TIMESTAMP_NTZ": ["0001-01-01 00:00:00", "2026-02-28 12:00:00", "9999-12-31 23:59:59", "1970-01-01 00:00:00"],
    "BOOLEAN": ["true", "false", "true", "false"],
}
TEXTS = ["2026-02-30", "2026-02-28", "2026-02-28 25:00:00", "true", "yes", "1e5", "99999999999", "0x1", "null", "1_000"]
TARGETS = [*VALUES, "DECIMAL(3, 1)", "DECIMAL(10, 2)"]
NUMBERS = [name for name in VALUES if name not in ("STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BOOLEAN")]


@pytest.fixture(scope="module")
def tables(application: PySparkEngine) -> Iterator[PySparkSession]:
    """Yield a session with the table t: a column of each type by its place, and NULL in the last row."""
    with application.session() as session, session.views(), session.separating_errors():
        for name, value in QUICK.items():
            session.spark.conf.set(name, value)
        length = max(len(TEXTS), 4)
        rows = []
        for row in range(length + 1):
            values = []
            for name, texts in VALUES.items():
                texts = [*texts, *TEXTS] if name == "STRING" else texts
                values.append(
                    f"CAST('{texts[row % len(texts)]}' AS {name})" if row < length else f"CAST(NULL AS {name})"
                )
            rows.append(f"({', '.join(values)})")
        columns = ", ".join(f"c{number}" for number in range(len(VALUES)))
        session.register("t", session.spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS t({columns})"))
        yield session


def asked(text: str) -> str:
    """Return the condition that an expression fails, which is told without an exception."""
    found = fallible(ExpressionText(text, 1))
    assert found is not None
    assert found.complete, text
    return found.failed


def differences(session: PySparkSession, texts: list[str], rows: str) -> tuple[int, list[str]]:
    """Return how many values fail, and the expressions of which the two conditions differ for a row."""
    items = [item for text in texts for item in (f"({asked(text)}) AS a", f"({raises(text)}) AS r")]
    # Too many columns for one analysis would be slow: Spark's time is not linear in them.
    failing, wrong = 0, []
    for first in range(0, len(texts), 60):
        for row in session.spark.sql(f"SELECT {', '.join(items[2 * first : 2 * first + 120])} FROM {rows}").collect():
            for number, text in enumerate(texts[first : first + 60]):
                failing += row[2 * number + 1]
                if row[2 * number] is not row[2 * number + 1]:
                    wrong.append(text)
    return failing, wrong


def allowed(session: PySparkSession, text: str, rows: str) -> bool:
    """Return whether Spark accepts an expression for the types of its operands."""
    try:
        return bool(session.spark.sql(f"SELECT {text} FROM {rows}").schema)
    except PySparkException:
        return False


@pytest.mark.nightly
def test_casts(tables: PySparkSession) -> None:
    all_casts = [f"CAST(c{i} AS {to})" for i in range(len(VALUES)) for to in TARGETS]
    texts = [text for text in all_casts if fallible(ExpressionText(text, 1)) and allowed(tables, text, "t")]
    failing, wrong = differences(tables, texts, "t")
    assert (failing > 200, wrong) == (True, [])
    attempts = {text: found.attempt for text in texts if (found := fallible(ExpressionText(text, 1))) is not None}
    assert None not in attempts.values()
    for first in range(0, len(texts), 60):
        some = texts[first : first + 60]
        values = [f"({attempts[text]}) <=> CASE WHEN {raises(text)} THEN NULL ELSE {text} END AS same" for text in some]
        rows = tables.spark.sql(f"SELECT {', '.join(values)} FROM t").collect()
        assert [attempts[text] for text, *same in zip(some, *rows, strict=True) if not all(same)] == []


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("symbol", "+-*/%")
def test_arithmetic(tables: PySparkSession, symbol: str) -> None:
    numbers = [list(VALUES).index(name) for name in NUMBERS]
    texts = [f"t.c{i} {symbol} u.c{j}" for i, j in product(numbers, numbers)]
    failing, wrong = differences(
        tables, texts, "(SELECT * FROM t LIMIT 5) AS t CROSS JOIN (SELECT * FROM t LIMIT 4) AS u"
    )
    assert (failing > 50, wrong) == (True, [])


def test_casts_within_arithmetic(tables: PySparkSession) -> None:
    text = list(VALUES).index("STRING")
    texts = [
        f"CAST(c{text} AS DECIMAL(10, 2)) / c2",
        f"c2 / CAST(c{text} AS INT)",
        f"CAST(c{text} AS INT) + c3",
        f"CAST(CAST(c{text} AS DECIMAL(10, 2)) AS TINYINT) * c0",
        f"(CAST(c{text} AS BIGINT)) - c1",
    ]
    failing, wrong = differences(tables, texts, "t")
    assert (failing > 20, wrong) == (True, [])
