"""What sqlglot alone reads in exponential time is read in linear time, into the tree that sqlglot gives short ones.

A test of a hundred parts that is exponential again never ends.
"""

from __future__ import annotations

from itertools import product

import pytest
from sqlglot import exp, parse_one
from support.projects import codes, compile_joints, sink, source, sql

from rivet_dagster.sql.parsing.dialect import parse_expression, read_query, tokenize
from rivet_dagster.sql.parsing.known_query import reads
from rivet_dagster.sql.parsing.other_dialect import know_other_query
from rivet_dagster.sql.parsing.parser_tokens import name_cross_joins
from rivet_dagster.sql.translation import translate

MANY = 100
TABLES = [f"t{n}" for n in range(MANY)]


@pytest.mark.parametrize(
    "join",
    [
        "JOIN {t}",
        "INNER JOIN {t} AS a{t}",
        "LEFT JOIN {t}",
        "FULL OUTER JOIN {t}",
        "LEFT SEMI JOIN {t}",
        "ANTI JOIN ({t})",
        "JOIN (SELECT * FROM {t})",
        "JOIN LATERAL (SELECT * FROM {t})",
        "JOIN {t} TABLESAMPLE (1 PERCENT)",
        "JOIN {t} CROSS JOIN u",
        "JOIN {t} JOIN u USING (k)",
        "JOIN {t}, v JOIN u",
        "CROSS JOIN {t}",
        "NATURAL JOIN {t}",
        "JOIN {t} ON s.k = {t}.k",
    ],
)
def test_chains_of_joins(join: str) -> None:
    query = read_query(f"SELECT * FROM s {' '.join([join.format(t=table) for table in TABLES])}")
    assert query.tree is not None
    assert {*TABLES, "s"} <= reads(query).keys()


def test_joins_without_criteria_before_others_that_have_them() -> None:
    without, having = " JOIN ".join(TABLES), " ".join([f"JOIN u{n} ON u{n}.k = t{n}.k" for n in range(MANY)])
    query = read_query(f"SELECT * FROM {without} {having} WHERE t0.k > 0")
    assert query.tree is not None
    criteria = [join.args["on"] for join in query.tree.args["joins"]]
    assert [on == exp.true() for on in criteria] == [True] * (MANY - 1) + [False] * MANY


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "polars"])
def test_chains_in_the_sql_of_other_engines(dialect: str) -> None:
    known = know_other_query(f"SELECT * FROM {' JOIN '.join(TABLES)}", dialect)
    assert {*known.reads} == {*TABLES}


@pytest.mark.parametrize("engine", ["duckdb", "sail"])
def test_chains_that_are_translated(engine: str) -> None:
    known = dict.fromkeys(TABLES, (("k", "int"),))
    translation = translate(f"SELECT count(*) AS n FROM {' JOIN '.join(TABLES)}", engine, known)
    assert translation.refusals == ()
    dialect = "duckdb" if engine == "duckdb" else "spark"
    assert len([*parse_one(translation.sql, dialect=dialect).find_all(exp.Table)]) == MANY


@pytest.mark.parametrize("name", ["struct", "array", "date", "timestamp", "int", "decimal", "string"])
def test_calls_of_functions_with_the_names_of_types(name: str) -> None:
    tree = parse_expression(f"{f'{name}(' * MANY}f(a, 1){')' * MANY}")
    (column,) = tree.find_all(exp.Column)
    assert column.name == "a"
    assert column.depth > MANY


@pytest.mark.parametrize(
    "joins",
    [
        "a JOIN b USING (k) LEFT JOIN c ON b.x = c.x CROSS JOIN d JOIN e",
        "a JOIN b CROSS JOIN c JOIN d ON c.x = d.x ON a.x = b.x",
        "(a JOIN b) JOIN (c JOIN d) ON a.x = c.x",
    ],
)
def test_joins_of_which_none_is_without_criteria_are_left_as_they_are(joins: str) -> None:
    tokens = tokenize(f"SELECT * FROM {joins}")
    assert name_cross_joins(tokens) is tokens


_JOINS = ("JOIN", "LEFT JOIN", "FULL OUTER JOIN", "LEFT SEMI JOIN", "CROSS JOIN", "NATURAL JOIN", ",")
_CRITERIA = ("", " ON s.k = 1", " USING (k)")


@pytest.mark.parametrize("first", _JOINS)
def test_the_tree_is_that_of_sqlglot(first: str) -> None:
    for begin, join, *criteria in product(("s", "(s JOIN s)"), _JOINS, *[_CRITERIA] * 2):
        if join == "," and criteria[1]:
            continue  # which nothing reads
        text = f"SELECT * FROM {begin} {first} t{criteria[0] if first != ',' else ''} {join} u{criteria[1]} JOIN v"
        assert _without_kinds(read_query(text).tree) == _without_kinds(parse_one(text, dialect="databricks"))


def _without_kinds(tree: exp.Expr | None) -> exp.Expr | None:
    """``JOIN`` as ``INNER JOIN``, ``LEFT JOIN`` as ``LEFT OUTER JOIN``."""
    for join in () if tree is None else tree.find_all(exp.Join):
        if not join.kind:
            join.set("kind", "OUTER" if join.side else "INNER")
    return tree


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a AS join, t.join, struct(1 AS join) FROM t JOIN u JOIN v",
        "SELECT * FROM a JOIN b JOIN c ON b.x = c.x ON a.x = b.x",
        "SELECT * FROM (SELECT * FROM a JOIN b UNION SELECT * FROM a JOIN b) JOIN c ON true JOIN d",
        "SELECT CAST(a AS DECIMAL(10, 2)), CAST(b AS STRUCT<x: DECIMAL(3, 1), y: CHAR(2)>), DATE '2024-01-01' FROM t",
        "SELECT date(a), timestamp(1), struct(1, 2), struct(a AS b, 2), array(a)[0], map(1, a) FROM t",
        "SELECT 1 UNION (SELECT 2) UNION ALL (SELECT int(x) FROM t)",
        "SELECT INTERVAL (a) DAY FROM date(1), range(1, a), VALUES (1) AS date(a) WHERE x IS NULL AND (y)",
    ],
)
def test_other_names_and_calls_are_read_as_before(text: str) -> None:
    assert _without_kinds(read_query(text).tree) == _without_kinds(parse_one(text, dialect="databricks"))


def test_a_project_with_such_a_chain_compiles() -> None:
    tables = [source(table, options={"schema": f"id_{table} BIGINT"}) for table in TABLES]
    chain = sql("chain", f"SELECT * FROM {' LEFT JOIN '.join(TABLES)}")
    plan = compile_joints(*tables, chain, sink("stored", "chain"))
    assert codes(plan) == []
    (joint,) = [joint for joint in plan.joints if joint.name == "chain"]
    assert [field.name for field in joint.schema] == [f"id_{table}" for table in TABLES]
