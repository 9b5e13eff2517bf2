"""Checks that read other joints: which joints are stored for them, and in which order groups run."""

from typing import Any

import pytest
from support.projects import codes, compile_joints, groups, reasons, sink, source, sql

from rivet_dagster.cli.compile.command import plan_mermaid
from rivet_dagster.cli.compile.outline import plan_text
from rivet_dagster.compiler.plan import CompiledAssembly


def relationship(to: str, **fields: Any) -> dict[str, Any]:
    return {"assertions": [{"type": "relationship", "column": "customer", "to": to, **fields}]}


def custom(query: str) -> dict[str, Any]:
    return {"audits": [{"type": "custom", "sql": query}]}


def test_joints_read_by_a_check_run_first() -> None:
    plan = compile_joints(
        source("raw"),
        sql("zeta", "SELECT id FROM raw"),
        sql("orders", "SELECT id, customer FROM raw", quality=relationship("zeta.id")),
    )
    assert plan.execution_order == ("raw", "zeta", "orders")
    assert plan.waves == (("raw",), ("zeta",), ("orders",))
    orders = plan.group("orders")
    assert (orders.inputs, orders.judged_with, orders.before) == (("raw",), ("zeta",), ("raw", "zeta"))
    assert plan.joint("orders").upstream == ("raw",)
    assert plan.joint("orders").checks[0].reads == ("zeta",)
    assert "    gate    relationship_customer\n            its checks read zeta: " in plan_text(plan)
    assert " -.->|checks| " in plan_mermaid(plan)


def test_a_joint_that_a_check_reads_is_stored() -> None:
    joints = [
        sql("customers", "SELECT 1 AS id"),
        sql("cities", "SELECT * FROM customers"),
        sql("orders", "SELECT 1 AS customer"),
    ]
    alone = compile_joints(*joints, sink("out", "cities"), sink("sales", "orders"))
    assert groups(alone)["out"] == ("customers", "cities", "out")
    judged = compile_joints(
        *joints, sink("out", "cities"), sink("sales", "orders", quality=relationship("customers.id"))
    )
    assert groups(judged) == {"customers": ("customers",), "out": ("cities", "out"), "sales": ("orders", "sales")}
    assert reasons(judged) == {"customers": "multi_consumer"}
    assert judged.materializations[0].evict_after == ("out", "sales")
    assert [(b.producer, b.consumer) for b in judged.engine_boundaries] == [
        ("customers", "out"), ("customers", "sales"),
    ]  # fmt: skip


def test_a_joint_read_by_both_a_check_and_its_joint_is_stored() -> None:
    plan = compile_joints(
        sql("customers", "SELECT 1 AS id"),
        sql("orders", "SELECT id AS customer FROM customers", quality=relationship("customers.id")),
    )
    assert groups(plan) == {"customers": ("customers",), "orders": ("orders",)}
    assert (plan.group("orders").inputs, plan.group("orders").judged_with) == (("customers",), ())


def test_a_custom_check_reads_the_joints_in_its_query() -> None:
    query = (
        "WITH big AS (SELECT 1) SELECT * FROM {{ this }} o ANTI JOIN Customers c ON o.customer = c.id CROSS JOIN big"
    )
    plan = compile_joints(
        sql("customers", "SELECT 1 AS id"), sql("big", "SELECT 1"), sql("orders", "SELECT 1", quality=custom(query))
    )
    assert plan.group("orders").judged_with == ("customers",)


def test_a_check_may_read_its_own_joint() -> None:
    plan = compile_joints(sql("staff", "SELECT 1 AS id, 2 AS customer", quality=relationship("staff.id")))
    assert plan.group("staff").before == ()


def test_a_check_of_a_source_may_read_a_joint() -> None:
    plan = compile_joints(
        source("orders", quality=relationship("customers.id")),
        source("people"),
        sql("customers", "SELECT id FROM people"),
        sql("totals", "SELECT * FROM orders"),
    )
    assert plan.execution_order.index("customers") < plan.execution_order.index("orders")
    assert groups(plan)["orders"] == ("orders",)


def test_a_check_that_reads_a_downstream_joint_is_a_cycle() -> None:
    plan = compile_joints(
        sql("a", "SELECT 1 AS customer", quality=relationship("c.id")),
        sql("b", "SELECT * FROM a"),
        sql("c", "SELECT * FROM b"),
    )
    (error,) = plan.errors
    assert error.code == "RVT-305"
    assert error.message == "the joints form a cycle: a <- c <- b <- a (by the checks of a)"


@pytest.mark.parametrize(
    ("quality", "code", "words"),
    [
        (relationship("custmers.id"), "RVT-302", "'custmers', which is no joint; did you mean 'customers'?"),
        (relationship("report.id"), "RVT-307", "it reads the sink 'report'"),
        (custom("SELECT * FROM {{ this }}, report"), "RVT-307", "it reads the sink 'report'"),
    ],
)
def test_joints_that_a_check_cannot_read(quality: dict[str, Any], code: str, words: str) -> None:
    plan = compile_joints(
        sql("customers", "SELECT 1 AS id"), sink("report", "customers"), sql("orders", "SELECT 1", quality=quality)
    )
    assert codes(plan) == [code]
    assert words in plan.errors[0].message


def test_a_source_with_a_limit_is_not_also_read_by_a_check() -> None:
    plan = compile_joints(
        source("raw", limit=3), sql("orders", "SELECT * FROM raw"), sql("a", "SELECT 1", quality=relationship("raw.id"))
    )
    assert codes(plan) == ["RVT-314"]


def test_the_plan_survives_json() -> None:
    plan = compile_joints(
        sql("customers", "SELECT 1 AS id"), sql("orders", "SELECT 1", quality=relationship("customers.id"))
    )
    assert CompiledAssembly.from_json(plan.to_json()) == plan


def test_a_source_is_read_before_the_check_that_reads_it_whoever_else_does() -> None:
    plan = compile_joints(
        source("raw"),
        source("loose"),
        sql("paid", "SELECT id, customer FROM raw", quality=relationship("loose.id")),
        sql("total", "SELECT paid.id FROM paid, loose"),
        sink("out", "total"),
    )
    assert groups(plan)["loose"] == ("loose",)
    assert plan.execution_order.index("loose") < plan.execution_order.index("paid")
    assert plan.group("paid").judged_with == ("loose",)
