"""Which joints are fused, and why the others are stored."""

from __future__ import annotations

import pytest
from support.projects import compile_joints, groups, python, reasons, sink, source, sql

NOT_NULL = {"assertions": [{"type": "not_null", "columns": ["id"]}]}


def test_a_chain_is_one_query_with_the_sources_read_in_place():
    plan = compile_joints(source("raw"), sql("a", "SELECT * FROM raw"), sql("b", "SELECT id FROM a"), sink("out", "b"))
    assert groups(plan) == {"out": ("raw", "a", "b", "out")}
    assert plan.group("out").sql == ("WITH a AS (\nSELECT * FROM raw\n),\nb AS (\nSELECT id FROM a\n)\nSELECT * FROM b")
    assert reasons(plan) == {}


def test_a_joint_with_two_readers_is_stored_once_even_within_one_group():
    plan = compile_joints(
        source("raw"),
        sql("a", "SELECT * FROM raw"),
        sql("b", "SELECT * FROM a"),
        sql("c", "SELECT * FROM a JOIN b USING (id)"),
    )
    assert groups(plan) == {"a": ("raw", "a"), "c": ("b", "c")}
    assert reasons(plan) == {"a": "multi_consumer"}
    assert plan.materializations[0].evict_after == ("c",)


def test_a_joint_read_twice_by_one_joint_is_fused():
    plan = compile_joints(sql("a", "SELECT 1 AS id"), sql("b", "SELECT * FROM a x JOIN a y USING (id)"))
    assert groups(plan) == {"b": ("a", "b")}


def test_a_source_with_readers_in_two_groups_is_neither_fused_nor_stored():
    plan = compile_joints(source("raw"), sql("a", "SELECT * FROM raw"), sql("b", "SELECT * FROM raw"))
    assert groups(plan) == {"raw": ("raw",), "a": ("a",), "b": ("b",)}
    assert reasons(plan) == {}
    assert plan.group("a").inputs == ("raw",)


def test_a_source_read_twice_within_one_group_is_fused():
    plan = compile_joints(source("raw"), sql("a", "SELECT * FROM raw"), sql("b", "SELECT * FROM raw JOIN a USING (id)"))
    assert groups(plan) == {"b": ("raw", "a", "b")}


def test_eager_checks_and_engines_are_boundaries():
    plan = compile_joints(
        sql("a", "SELECT 1 AS id", eager=True),
        sql("b", "SELECT * FROM a", quality=NOT_NULL),
        sql("c", "SELECT * FROM b"),
        sql("d", "SELECT * FROM c", engine="other"),
    )
    assert groups(plan) == {"a": ("a",), "b": ("b",), "c": ("c",), "d": ("d",)}
    assert reasons(plan) == {"a": "eager", "b": "assertion_boundary", "c": "engine_change"}


def test_a_warning_is_a_boundary_too():
    quality = {"audits": [{"type": "not_null", "columns": ["id"], "severity": "warn"}]}
    plan = compile_joints(sql("a", "SELECT 1 AS id", quality=quality), sql("b", "SELECT * FROM a"))
    assert reasons(plan) == {"a": "assertion_boundary"}


def test_a_gated_source_is_not_fused():
    plan = compile_joints(source("raw", quality=NOT_NULL), sql("a", "SELECT * FROM raw"))
    assert groups(plan) == {"raw": ("raw",), "a": ("a",)}


def test_python_is_a_group_of_its_own():
    joint, functions = python("model", "a")
    plan = compile_joints(
        source("raw"), sql("a", "SELECT * FROM raw"), joint, sql("b", "SELECT * FROM model"), functions=functions
    )
    assert groups(plan) == {"a": ("raw", "a"), "model": ("model",), "b": ("b",)}
    assert reasons(plan) == {"a": "python_boundary", "model": "python_boundary"}
    assert plan.group("model").sql is None


def test_a_non_deterministic_result_is_never_evaluated_twice():
    twice = "SELECT * FROM a x JOIN a y USING (id)"
    for text in (
        "SELECT rand() AS id",
        "SELECT id FROM VALUES (1) AS t(id) LIMIT 1",
        "SELECT first(id) AS id FROM VALUES (1) AS t(id)",
        "SELECT my_function(id) AS id FROM VALUES (1) AS t(id)",
        "SELECT current_timestamp AS id",
        "SELECT id FROM range(9) TABLESAMPLE (50 PERCENT)",
    ):
        plan = compile_joints(sql("a", text), sql("b", twice))
        assert reasons(plan) == {"a": "non_deterministic"}, text
    for text in ("SELECT id FROM VALUES (1) AS t(id) ORDER BY id LIMIT 1", "SELECT make_date(2013, 1, 1) AS id"):
        assert reasons(compile_joints(sql("a", text), sql("b", twice))) == {}, text


def test_non_determinism_is_inherited_until_the_result_is_stored():
    plan = compile_joints(
        sql("a", "SELECT rand() AS id"), sql("b", "SELECT * FROM a"), sql("c", "SELECT * FROM b x JOIN b y USING (id)")
    )
    assert reasons(plan) == {"b": "non_deterministic"}
    stored = compile_joints(
        sql("a", "SELECT rand() AS id", eager=True),
        sql("b", "SELECT * FROM a"),
        sql("c", "SELECT * FROM b x JOIN b y USING (id)"),
    )
    assert reasons(stored) == {"a": "eager"}


def test_a_cte_that_is_read_twice_counts_twice():
    plan = compile_joints(
        sql("a", "SELECT rand() AS id"), sql("b", "WITH x AS (SELECT * FROM a) SELECT * FROM x JOIN x y USING (id)")
    )
    assert reasons(plan) == {"a": "non_deterministic"}


def test_a_chain_deeper_than_the_limit_is_split():
    chain = [sql("j000", "SELECT 1 AS id")] + [sql(f"j{n:03}", f"SELECT * FROM j{n - 1:03}") for n in range(1, 100)]
    plan = compile_joints(*chain)
    assert set(reasons(plan).values()) == {"depth"}
    assert max(len(joints) for joints in groups(plan).values()) == 40
    shallow = compile_joints(*chain[:10], max_fusion_depth=4)
    assert max(len(joints) for joints in groups(shallow).values()) == 4


def test_the_joints_own_ctes_count_towards_the_depth():
    text = "WITH x AS (SELECT * FROM {0}), y AS (SELECT * FROM x) SELECT * FROM y"
    chain = [sql("j0", "SELECT 1 AS id")] + [sql(f"j{n}", text.format(f"j{n - 1}")) for n in range(1, 5)]
    assert reasons(compile_joints(*chain, max_fusion_depth=7)) == {"j2": "depth"}


def test_a_sink_with_several_upstreams_is_a_union_by_name():
    plan = compile_joints(sql("a", "SELECT 1 AS id"), sql("b", "SELECT 2 AS id"), sink("out", "a", "b"))
    assert groups(plan) == {"out": ("a", "b", "out")}
    assert "UNION ALL BY NAME" in (plan.group("out").sql or "")


def test_order_waves_and_boundaries():
    plan = compile_joints(
        source("raw"),
        sql("a", "SELECT * FROM raw"),
        sql("b", "SELECT * FROM a"),
        sql("c", "SELECT * FROM a"),
        sink("out", "b"),
    )
    assert plan.execution_order == ("a", "c", "out")
    assert plan.waves == (("a",), ("c", "out"))
    assert [(e.joint, e.consumer, e.method) for e in plan.engine_boundaries] == [
        ("a", "c", "native_reference"),
        ("a", "out", "native_reference"),
    ]
    assert plan.materializations[0].evict_after == ("c", "out")


def test_a_joint_that_reads_its_own_name_reads_the_engines_table():
    plan = compile_joints(sql("orders", "SELECT * FROM orders"), sql("b", "SELECT * FROM Orders"))
    assert groups(plan) == {"b": ("orders", "b")}
    assert plan.joint("orders").upstream == ()


@pytest.mark.nightly
def test_five_thousand_joints_in_a_chain_compile():
    chain = [sql("j0", "SELECT 1 AS id")] + [sql(f"j{n}", f"SELECT * FROM j{n - 1}") for n in range(1, 5000)]
    plan = compile_joints(*chain)
    assert len(plan.fused_groups) == 125
