"""A user's text within a generated query must be balanced, or it is rejected."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hostile_sql import BALANCED, PIECES, UNBALANCED
from support.projects import codes, compile_joints, sink, source, sql
from support.torture import examples

from rivet_dagster.checks.custom import Custom
from rivet_dagster.checks.expression import Expression
from rivet_dagster.model.check import Check
from rivet_dagster.model.check_plan import one_pass
from rivet_dagster.sql.fusion import fuse
from rivet_dagster.sql.parsing.dialect import SqlError, parse_expression, read_query, same_quotes, tokenize
from rivet_dagster.sql.parsing.embedding import in_parentheses, refuse_unbalanced
from rivet_dagster.sql.parsing.lexer import without_comments
from rivet_dagster.sql.source_query import projection

RAW = source("raw", options={"schema": "id BIGINT, name STRING"})


def check(kind: str, text: str) -> Check:
    return Check(kind=kind, name=kind, phase="assertion", options={"sql": text})


@pytest.mark.parametrize("text", UNBALANCED)
def test_unbalanced_text_is_an_error_in_every_key(text: str) -> None:
    query = f"SELECT id FROM raw WHERE {text}"
    for joint in (
        source("a", filter=text),
        source("a", columns=(("x", text),)),
        source("a", options={"schema": f"id BIGINT {text}"}),
        sql("a", "SELECT * FROM raw", quality=(check("expression", text),)),
        sql("a", "SELECT * FROM raw", quality=(check("custom", f"SELECT * FROM a WHERE {text}"),)),
        sql("a", query),
        sql("a", f"FORM raw WHERE {text}", upstream=("raw",)),  # only Spark could decide
    ):
        assert codes(compile_joints(RAW, joint)), joint
    template = f"SELECT id FROM raw{{% if is_incremental() %}} WHERE {text}{{% endif %}}"
    plan = compile_joints(RAW, sql("a", template), sink("out", "a", write_strategy={"mode": "append"}))
    assert codes(plan) == ["RVT-207"]


@pytest.mark.parametrize("text", BALANCED)
def test_balanced_text_is_no_error(text: str) -> None:
    refuse_unbalanced(text)
    judged = sql("judged", "SELECT * FROM raw", quality=(check("expression", text),))
    plan = compile_joints(
        RAW, sql("a", f"SELECT id FROM raw WHERE {text}"), sql("b", "SELECT * FROM a"), source("c", filter=text), judged
    )
    assert not plan.errors


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("SELECT 1\n) UNION ALL (SELECT 2", 2, "holds a ) that closes nothing"),
        ("SELECT f(\n[1)\n]", 2, "holds a ) that closes nothing"),
        ("SELECT 1\nFROM (SELECT (2)", 2, "holds a ( that is not closed"),
        ("SELECT 1 AS x -- ends \\\n, 2 AS y)\nFROM t)", 3, "holds a ) that closes nothing"),
        ("SELECT /*+ BROADCAST(a)\n1", 1, "holds a /*+ that is not closed"),
        ("SELECT 1 /* one /* two */\n", 1, "holds a comment that is not closed"),
        ("SELECT\nr'\\' || 'a", 2, "holds a text in quotes (') that is not closed"),
        ("SELECT 1;\nSELECT 2", 2, "holds more than one statement"),
        ("SELECT 1 --\\\n;\n; SELECT 2", 3, "holds more than one statement"),
    ],
)
def test_the_error_has_the_location(text: str, line: int, words: str) -> None:
    with pytest.raises(SqlError) as raised:
        read_query(text)
    assert (str(raised.value), raised.value.line) == (words, line)


def test_comments_by_sparks_rules_are_not_part_of_the_query() -> None:
    tree = read_query("SELECT id -- not \\\n, secret\nFROM raw").tree
    assert tree is not None
    assert [item.name for item in tree.expressions] == ["id"]
    with pytest.raises(SqlError):  # sqlglot ends the hint within the quotes
        read_query("SELECT /*+ f('*/') */ 'x'")


def test_ambiguous_quotes_are_detected() -> None:
    assert same_quotes("x'1F' || r'\\' || `a`", tokenize("x'1F' || r'\\' || `a`"))
    assert not same_quotes("a 'b'", tokenize("'a' b"))


def test_an_alias_is_not_part_of_an_expression() -> None:
    for text in ("id AS x", "id x", "*"):
        with pytest.raises(SqlError, match="is not one expression"):
            parse_expression(text)


BUILT = {
    "parentheses": lambda text: f"SELECT {in_parentheses(text)} AS x",
    "joints": lambda text: fuse([("a", text), ("b", "SELECT (1)")], "b"),
    "columns": lambda text: projection("t", [("x", text), ("y", "(1)")], "id > 0", 9),
    "filter": lambda text: projection("t", [("y", "(1)")], text, 9),
    "checks": lambda text: (
        one_pass("`t`", [Expression(sql).counting("t", n) for n, sql in enumerate((text, "(true)"))]).sql
    ),
    "samples": lambda text: Expression(text).samples("t", 5).sql,
    "one check": lambda text: Expression(text).shown("t"),
}


@settings(max_examples=examples(80, 400), deadline=None, database=None, derandomize=True)
@given(st.lists(st.sampled_from(PIECES) | st.sampled_from(BALANCED), max_size=9).map("".join))
def test_a_text_is_rejected_or_does_not_affect_the_text_around_it(text: str) -> None:
    try:
        refuse_unbalanced(text)
    except SqlError:
        return
    for built in BUILT.values():
        whole = built(text)
        before, behind = built("here").split("here")
        refuse_unbalanced(whole)
        assert whole.startswith(before)
        assert without_comments(whole).endswith(behind)
    with suppress(SqlError):
        query = read_query(f"SELECT * FROM t WHERE {text}").text
        whole = Custom(query).violations("t")
        refuse_unbalanced(whole)
        assert without_comments(whole).endswith("\n) AS `violation`")
