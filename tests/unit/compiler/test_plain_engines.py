"""RVT-329: what joints need that engines of plain queries, ``polars`` and ``arrow``, do not run."""

from dataclasses import replace

import pytest
from support.projects import PLUGINS, profile, python, sink, source, sql

from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.engines.registry import engine_traits
from rivet_dagster.model.check import Check
from rivet_dagster.model.partitions import Partitions
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.project import Project
from rivet_dagster.model.write_strategy import WriteStrategy

ORDERS = {"options": {"format": "parquet", "schema": "id INT, s STRING"}}


def plan(*joints, type_="polars", functions=None, **options):
    """Compile joints on an engine of that type."""
    engine = EngineSpec("small", type_, ("lake",), None, options)
    given = replace(profile(), engines=(engine,), default_engine="small")
    return compile_project(Project(given, joints, functions or {}), replace(PLUGINS, engines=engine_traits()))


def errors(*joints, **options):
    return [(error.code, error.joint, error.message) for error in plan(*joints, **options).errors]


def check(kind, **options):
    return Check(kind=kind, name=kind, phase="assertion", options=options)


def test_sql_of_spark_is_refused_with_the_remedy_of_the_engine():
    joints = [source("orders", **ORDERS), sql("all", "SELECT * FROM orders"), sink("out", "all")]
    (error,) = plan(*joints).errors
    assert (error.code, error.joint) == ("RVT-329", "all")
    assert "dialect: polars" in error.remediation
    (error,) = plan(*joints, type_="arrow").errors
    assert "dialect" not in error.remediation
    assert "Python" in error.remediation


def test_joints_in_the_sql_of_polars_are_one_query():
    joints = [
        source("orders", **ORDERS),
        sql("first", "SELECT id, s FROM orders WHERE id > 1"),
        sql("counts", "WITH f AS (SELECT * FROM first)\nSELECT s, COUNT(*) AS n FROM f GROUP BY s"),
        sink("out", "counts"),
    ]
    made = plan(*joints, dialect="polars")
    assert made.errors == ()
    (group,) = made.fused_groups
    assert group.joints == ("orders", "first", "counts", "out")
    (query,) = group.query.fused()
    assert (query.dialect, [name for name, _ in query.ctes]) == ("polars", ["first", "counts"])
    assert {code for code, _, _ in errors(*joints, type_="arrow")} == {"RVT-329"}


def test_python_joints_and_copies_run():
    made, functions = python("made", "orders")
    for type_ in ("polars", "arrow"):
        joints = [source("orders", **ORDERS), made, sink("out", "made"), sink("copy", "orders")]
        assert errors(*joints, type_=type_, functions=functions) == []


def test_a_source_can_choose_and_rename_columns_and_not_compute():
    renamed = (("id", None), ("text", "s"))
    assert errors(source("orders", columns=renamed, limit=3, **ORDERS), sink("out", "orders")) == []
    computed = source("orders", columns=(("twice", "id * 2"),), filter="id > 1", **ORDERS)
    found = errors(computed, sink("out", "orders"))
    assert [code for code, _, _ in found] == ["RVT-329", "RVT-329"]
    assert "`twice`" in found[0][2] + found[1][2]


@pytest.mark.parametrize(
    ("mode", "options", "runs"),
    [
        ("replace", {}, True),
        ("append", {}, True),
        ("truncate_insert", {}, True),
        ("merge", {"key_columns": ("id",)}, False),
        ("delete_insert", {"partition_by": ("s",)}, False),
        ("scd2", {"key_columns": ("id",)}, False),
    ],
)
def test_write_strategies(mode, options, runs):
    strategy = WriteStrategy(mode, options=options)
    found = errors(source("orders", **ORDERS), sink("out", "orders", write_strategy=strategy))
    assert [code for code, _, _ in found] == ([] if runs else ["RVT-329"])


def test_partitions_are_refused():
    regions = Partitions("static", "s", values=("eu", "us"))
    found = errors(source("orders", **ORDERS), sink("out", "orders", partitions=regions))
    assert [(code, joint) for code, joint, _ in found] == [("RVT-329", "out")]


def test_checks_of_exact_meaning_run_and_others_are_refused():
    fine = (
        check("not_null", columns=("id",)),
        check("unique", columns=("id",)),
        check("row_count", min=1, max=None),
        check("accepted_values", column="s", values=("a",)),
        check("schema", columns=(("id", "int"), ("s", "string"))),
    )
    assert errors(source("orders", **ORDERS), sink("out", "orders", quality=fine)) == []
    others = (
        check("expression", sql="id > 0"),
        check("freshness", column="id", max_age=1.0),
        check("relationship", column="id", to=("orders", "id")),
        check("custom", sql="SELECT * FROM {{ this }}"),
    )
    found = errors(source("orders", **ORDERS), sink("out", "orders", quality=others))
    assert sorted(text.split("'")[1] for code, _, text in found if code == "RVT-329") == sorted(c.kind for c in others)


def test_a_table_of_another_format_is_refused():
    (found,) = errors(source("orders", options={"format": "csv", "schema": "id INT"}), sink("out", "orders"))
    assert found[0] == "RVT-328"
