"""What does not fit together, each with its code; all of it at once."""

from __future__ import annotations

import pytest
from support.projects import codes, compile_joints, python, sink, source, sql

from rivet_dagster.errors import RivetError


@pytest.mark.parametrize(
    ("code", "joints", "words"),
    [
        ("RVT-301", [sql("a", "SELECT 1 AS x"), sql("a", "SELECT 2 AS x")], "taken"),
        ("RVT-302", [sql("orders", "SELECT 1 AS x"), sink("out", "ordres")], "did you mean 'orders'"),
        ("RVT-303", [sql("a", "SELECT 1 AS x"), source("raw", upstream=["a"])], "no upstream"),
        ("RVT-304", [sink("out")], "needs `upstream`"),
        ("RVT-305", [sql("a", "SELECT * FROM b"), sql("b", "SELECT * FROM a")], "a <- b <- a"),
        ("RVT-307", [sql("a", "SELECT 1 AS x"), sink("out", "a"), sql("b", "SELECT * FROM out")], "b reads"),
        ("RVT-308", [sql("a", "SELECT 1 AS x", engine="sprak")], "did you mean 'spark'"),
        ("RVT-309", [source("raw", catalog="lak"), sql("a", "SELECT * FROM raw")], "did you mean 'lake'"),
        ("RVT-309", [source("raw", engine="other")], "does not reach"),
        ("RVT-310", [sql("a", "SELECT 1 AS x"), sink("o", "a"), sink("p", "a", table="o")], "'o' writes"),
        ("RVT-310", [source("raw", table="out"), sql("a", "SELECT 1 AS x"), sink("out", "a")], "read a instead"),
        ("RVT-312", [sql("a", "SELECT 1 AS x"), sink("o", "a", write_strategy="merge")], "it can: replace"),
        ("RVT-313", [sql("a", "SELECT 1 AS x"), sql("b", "SELECT 1 AS x"),
                     sql("c", "SELECT * FROM a, b", upstream="a")], "reads joint 'b'"),
        ("RVT-314", [source("raw", limit=3), sql("a", "SELECT * FROM raw"), sql("b", "SELECT * FROM raw")], "a, b"),
        ("RVT-314", [source("raw", limit=3), sql("a", "SELECT * FROM raw, raw y")], "more than once"),
        ("RVT-207", [sql("a", "DELETE FROM t")], "not a query"),
        ("RVT-207", [sql("a", "SELECT 1; SELECT 2")], "more than one statement"),
        ("RVT-207", [sql("a", "-- nothing")], "no query"),
        ("RVT-207", [sql("a", "SELECT * FROM {{ ref('x') }}")], "templating"),
        ("RVT-207", [source("raw", filter="id IN (SELECT 1)")], "subquery"),
        ("RVT-207", [source("raw", columns=[{"a": "rand()"}])], "another result each time"),
        ("RVT-207", [source("raw", columns=[{"a": "max(x)"}])], "aggregates"),
        ("RVT-315", [sql("a", "SELECT a FROM (SELECT b FROM")], "could not be read"),
    ],
)  # fmt: skip
def test_each_error_has_its_code_and_its_words(code, joints, words):
    errors = compile_joints(*joints).errors
    assert code in [error.code for error in errors]
    assert any(words in error.message for error in errors), errors


def test_a_python_function_must_take_its_upstream():
    joint, functions = python("model", "a", "b", upstream=["a", "c"])
    others = [sql(name, "SELECT 1 AS x") for name in "abc"]
    assert codes(compile_joints(joint, *others, functions=functions)) == ["RVT-311"]
    single, functions = python("model", "anything", upstream=["a"])
    assert codes(compile_joints(single, *others, functions=functions)) == []


def test_all_errors_come_at_once_and_nothing_is_planned():
    plan = compile_joints(sql("a", "SELECT 1; SELECT 2"), sink("out", "nowhere"), sink("empty"))
    assert sorted(codes(plan)) == ["RVT-207", "RVT-302", "RVT-304"]
    assert plan.fused_groups == ()
    with pytest.raises(RivetError) as caught:
        plan.raise_errors()
    for code in codes(plan):
        assert code in str(caught.value)


def test_unreadable_sql_compiles_with_a_declared_upstream_and_a_warning():
    plan = compile_joints(sql("a", "SELECT 1 AS x"), sql("b", "SELECT x FROM a WHERE (", upstream="a"))
    assert plan.success
    assert [w.code for w in plan.warnings] == ["RVT-315"]


def test_a_table_that_is_nearly_a_joint_is_a_warning():
    plan = compile_joints(sql("orders", "SELECT 1 AS x"), sql("b", "SELECT * FROM ordres"))
    assert "did you mean 'orders'" in plan.warnings[0].message
