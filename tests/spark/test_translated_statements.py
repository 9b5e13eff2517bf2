"""Short statements of all families on DuckDB and Sail: what sqlglot, or nothing, makes of them, and what runs here.

The table in docs/sql-on-other-engines.md is this test's; with RIVET_RENEW set it is written anew.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot.errors import SqlglotError
from support.sail import sail_session
from support.three_engines import DuckSide, Failure, SailSide, Side, SparkSide, rows_of

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.translation import translate

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "sql-on-other-engines.md"
START, END = "<!-- statements -->\n", "<!-- end of statements -->\n"
ALIKE, OTHER, ERROR = "alike", "**other**", "error"
RUNS, REFUSED = "runs", "refused"


@dataclass(frozen=True)
class Line:
    """One statement, and what the engines make of it: as it is, and by translation."""

    sql: str
    plain: dict[str, str]
    here: dict[str, str]


def statements() -> list[str]:
    """Return the statements without their headings."""
    text = (ROOT / "tests" / "data" / "statements.sql").read_text("utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("--")]


def by_sqlglot(sql: str) -> str | None:
    """Return the translation for DuckDB by sqlglot alone; None where it raises."""
    try:
        return sqlglot.transpile(sql, read=SPARK, write="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)[0]
    except (SqlglotError, ValueError):
        return None


def compare(expected: Any, found: Any) -> str:
    """Return whether a result is Spark's, is another one, or an error that Spark does not raise."""
    if isinstance(expected, Failure):
        return ALIKE if isinstance(found, Failure) else OTHER
    if isinstance(found, Failure):
        return ERROR
    return ALIKE if rows_of(expected) == rows_of(found) else OTHER


@pytest.fixture(scope="module")
def lines(engine: Any) -> list[Line]:
    session = engine.session()
    with sail_session() as remote:
        spark, sides = SparkSide(session.spark.newSession()), {"duckdb": DuckSide(), "sail": SailSide(remote)}
        found = [_line(sql, spark, sides) for sql in statements()]
    session.close()
    return found


def _line(sql: str, spark: SparkSide, sides: dict[str, Side]) -> Line:
    expected = spark.query(sql)
    there = by_sqlglot(sql)
    plain = {
        "duckdb": ERROR if there is None else compare(expected, sides["duckdb"].query(there)),
        "sail": compare(expected, sides["sail"].query(sql)),
    }
    here = {}
    for name, side in sides.items():
        translation = translate(sql, name, {})
        if translation.refusals:
            here[name] = REFUSED
        else:
            outcome = compare(expected, side.query(translation.sql))
            here[name] = RUNS if outcome == ALIKE else outcome
    return Line(sql, plain, here)


def test_no_statement_has_other_rows_in_silence(lines: list[Line]) -> None:
    wrong = [(line.sql, line.here) for line in lines if not {*line.here.values()} <= {RUNS, REFUSED}]
    assert wrong == []


@pytest.mark.parametrize(("name", "share"), [("duckdb", 0.92), ("sail", 0.91)])
def test_most_statements_that_an_engine_reads_alike_run(lines: list[Line], name: str, share: float) -> None:
    alike = [line for line in lines if line.plain[name] == ALIKE]
    refused = [line.sql for line in alike if line.here[name] != RUNS]
    assert len(alike) - len(refused) >= share * len(alike), (len(alike), refused)
    assert Counter(line.plain[name] for line in lines)[OTHER] > 5  # else there was nothing to prove


def test_the_page_has_the_table(lines: list[Line]) -> None:
    head = "| Statement | DuckDB by sqlglot | DuckDB here | Sail as it is | Sail here |\n|---|---|---|---|---|\n"
    rows = "".join(
        f"| `{line.sql.replace('|', chr(92) + '|')}` | {line.plain['duckdb']} | {line.here['duckdb']} | "
        f"{line.plain['sail']} | {line.here['sail']} |\n"
        for line in lines
    )
    counts = ""
    for name, title in (("duckdb", "DuckDB"), ("sail", "Sail")):
        plain, here = Counter(line.plain[name] for line in lines), Counter(line.here[name] for line in lines)
        counts += (
            f"- {title}: of {len(lines)} statements {plain[ALIKE]} have Spark's result as they are, {plain[OTHER]} "
        )
        counts += f"another one without an error; here {here[RUNS]} run, and the others are refused.\n"
    made = f"{START}\n{counts}\n{head}{rows}\n{END}"
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    if "RIVET_RENEW" in os.environ:
        PAGE.write_text(before + made + after, "utf-8")
    assert PAGE.read_text("utf-8") == before + made + after
