"""SQL and Python joints with a `catalog`: one file a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.projects import PLUGINS, codes, compile_joints, groups, profile, python, reasons, sink, source, sql
from support.random_projects import Shape, shapes
from support.torture import examples

from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.registry import traits_of
from rivet_dagster.catalogs.spark import SparkCatalog
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.project import Project
from rivet_dagster.model.relations import CatalogTable, Files
from rivet_dagster.model.write_strategy import WriteStrategy

NOT_NULL = {"assertions": [{"type": "not_null", "columns": ["id"]}]}
MERGE = {"mode": "merge", "key_columns": ["id"]}
RAW = source("raw", options={"schema": "id INT, name STRING, at TIMESTAMP"})


def mart(name: str, text: str, **fields: Any) -> Joint:
    """Return a SQL joint that is published in the lake."""
    return sql(name, text, **{"catalog": "lake", **fields})


def test_a_published_joint_is_the_exit_of_one_group_with_one_target():
    plan = compile_joints(RAW, sql("a", "SELECT * FROM raw"), mart("orders", "SELECT id FROM a", write_strategy=MERGE))
    assert groups(plan) == {"orders": ("raw", "a", "orders")}
    group = plan.group("orders")
    assert group.sql == "WITH a AS (\nSELECT * FROM raw\n),\norders AS (\nSELECT id FROM a\n)\nSELECT * FROM orders"
    assert group.target is not None
    assert (group.target.catalog, group.target.table, group.target.declared) == ("lake", "orders", True)
    joint = plan.joint("orders")
    assert (joint.type, joint.catalog, joint.table) == ("sql", "lake", "orders")
    assert plan.materializations == ()


def test_its_write_is_that_of_a_sink():
    fields: dict[str, Any] = {
        "write_strategy": {**MERGE, "watermark_column": "at", "lookback": "2d", "on_empty": "skip"},
        "partitions": {"type": "daily", "column": "at", "start": "2026-01-01"},
        "on_error": {"mode": "quarantine", "max_errors": 3, "errors_table": "bad"},
        "options": {"retries": 2, "compression": "zstd"},
        "table": "t",
    }
    one = compile_joints(RAW, mart("orders", "SELECT id, at FROM raw", **fields))
    two = compile_joints(RAW, sql("before", "SELECT id, at FROM raw"), sink("orders", "before", **fields))
    assert groups(one)
    assert groups(two)
    assert one.target("orders") == two.target("orders")
    assert one.joint("orders").step == two.joint("orders").step


def test_readers_read_the_table_and_are_never_fused_with_it():
    plan = compile_joints(RAW, mart("orders", "SELECT id FROM raw"), mart("total", "SELECT count(*) AS n FROM orders"))
    assert groups(plan) == {"orders": ("raw", "orders"), "total": ("total",)}
    assert plan.group("total").inputs == ("orders",)
    assert [(m.joint, m.reason, m.evict_after) for m in plan.materializations] == [("orders", "table", ("total",))]
    (edge,) = plan.engine_boundaries
    assert (edge.joint, edge.method) == ("orders", "native_reference")


def test_the_first_rule_in_the_documented_order_is_the_reason():
    plan = compile_joints(
        mart("a", "SELECT 1 AS id", quality=NOT_NULL),
        mart("b", "SELECT * FROM a", on_error="quarantine"),
        sql("c", "SELECT * FROM b"),
    )
    assert reasons(plan) == {"a": "assertion_boundary", "b": "error_boundary"}


def test_a_sink_may_copy_it_and_another_may_unite_it():
    plan = compile_joints(
        mart("a", "SELECT 1 AS id"), mart("b", "SELECT 2 AS id"), sink("copy", "a"), sink("both", "a", "b")
    )
    assert groups(plan) == {"a": ("a",), "b": ("b",), "copy": ("copy",), "both": ("both",)}
    assert reasons(plan) == {"a": "multi_consumer", "b": "table"}


def test_a_python_joint_is_published_with_its_strategy_and_checks():
    joint, functions = python("model", "raw", catalog="lake", table="scores", write_strategy=MERGE, quality=NOT_NULL)
    plan = compile_joints(RAW, joint, sql("after", "SELECT * FROM model"), functions=functions)
    target = plan.target("model")
    assert target is not None
    assert (target.table, target.declared, target.write.mode) == ("scores", True, "upsert")
    assert groups(plan)["model"] == ("model",)
    assert reasons(plan) == {"model": "python_boundary"}


def test_an_engine_that_does_not_reach_the_catalog_reads_its_rows_as_arrow_or_not_at_all():
    plan = compile_joints(mart("a", "SELECT 1 AS id"), sql("b", "SELECT * FROM a", engine="other"))
    (edge,) = plan.engine_boundaries
    assert edge.method == "arrow_passthrough"
    plan = compile_joints(mart("a", "SELECT 1 AS id", engine="other"))
    assert codes(plan) == ["RVT-309"]


def test_checks_of_others_may_read_it_and_then_wait_for_it():
    check = {"assertions": [{"type": "relationship", "column": "id", "to": "a.id"}]}
    plan = compile_joints(mart("a", "SELECT 1 AS id"), mart("b", "SELECT 1 AS id", quality=check))
    assert plan.group("b").judged_with == ("a",)
    assert plan.execution_order == ("a", "b")


@pytest.mark.parametrize(("key", "value"), [("table", "t"), ("write_strategy", MERGE), ("write_strategy", "replace")])
@pytest.mark.parametrize("type_", ["sql", "python"])
def test_what_needs_a_catalog_is_refused_without_one(type_: str, key: str, value: Any) -> None:
    own = {"sql": "SELECT 1"} if type_ == "sql" else {"function": "a:b"}
    with pytest.raises(RivetError) as raised:
        Joint(**{"name": "a", "type": type_, key: value, **own})
    (error,) = raised.value.diagnostics
    assert error.code == "RVT-206"
    assert error.message == f"`{key}` has no meaning on a {type_} joint without a `catalog`"
    assert error.remediation is not None
    assert "`catalog`" in error.remediation


def test_unknown_options_are_those_that_the_catalog_does_not_know():
    with pytest.raises(RivetError) as raised:
        sql("a", "SELECT 1", options={"compression": "zstd"})
    assert [error.code for error in raised.value.diagnostics] == ["RVT-203"]
    (error,) = compile_joints(mart("a", "SELECT 1 AS id", options={"compresion": "zstd"})).errors
    assert (error.joint, error.code) == ("a", "RVT-203")


@pytest.mark.parametrize(
    ("fields", "code", "word"),
    [
        ({"catalog": "lak"}, "RVT-309", "did you mean 'lake'"),
        ({"catalog": "dagster"}, "RVT-309", "no joint can write to it"),
        ({"catalog": "store"}, "RVT-402", "no atomic switch"),
        ({"catalog": "hive", "write_strategy": MERGE}, "RVT-312", "cannot do merge"),
        ({"table": "a/b"}, "RVT-204", "no table can be called"),
        ({"write_strategy": {"mode": "merge", "key_columns": ["nr"]}}, "RVT-324", "which its query does not have"),
        ({"write_strategy": {"mode": "scd2", "key_columns": ["id"], "is_current": "id"}}, "RVT-324", "its query has"),
        ({"partitions": {"type": "daily", "column": "day", "start": "2026-01-01"}}, "RVT-322", "day"),
    ],
)
def test_what_cannot_be_published_is_an_error_of_the_joint(fields: dict[str, Any], code: str, word: str) -> None:
    found = profile()
    others = (CatalogSpec("store", "filesystem", {"path": "s3a://b/x"}), CatalogSpec("hive", "spark", {}))
    engine = EngineSpec("spark", "pyspark", ("lake", "store", "hive"))
    changed = replace(found, catalogs=(*found.catalogs, *others), engines=(engine,))
    plugins = replace(PLUGINS, catalogs={**PLUGINS.catalogs, "spark": traits_of(SparkCatalog)})
    plan = compile_project(Project(changed, (mart("a", "SELECT 1 AS id", **fields),), {}), plugins)
    assert code in codes(plan), plan.errors
    (error,) = [error for error in plan.errors if error.code == code]
    assert error.joint == "a"
    assert word in error.message


@pytest.mark.parametrize(
    ("strategy", "layout", "expected"),
    [
        ({"mode": "replace"}, ["id"], []),
        ({"mode": "replace"}, ["bucket(4, nr)"], ["RVT-324"]),
        (MERGE, ["id"], []),
        (MERGE, ["nr"], ["RVT-324"]),
        ({**MERGE, "on_schema_change": "add"}, ["nr"], []),  # the table may have it
    ],
)
def test_its_options_lay_out_the_table(strategy: dict[str, Any], layout: list[str], expected: list[str]) -> None:
    found = profile()
    spec = CatalogSpec("ice", "iceberg", {"catalog": "hadoop", "warehouse": "w", "default-namespace": "n"})
    engine = EngineSpec("spark", "pyspark", ("ice",))
    changed = replace(found, catalogs=(*found.catalogs, spec), engines=(engine,))
    kinds = frozenset({Files, CatalogTable})
    plugins = Plugins(
        {**PLUGINS.catalogs, "iceberg": traits_of(IcebergCatalog)},
        {"pyspark": replace(PLUGINS.engines["pyspark"], reads=kinds, writes=kinds)},
    )
    options = {"retries": 1, "partitioned_by": layout}
    joint = mart("a", "SELECT 1 AS id", catalog="ice", write_strategy=strategy, options=options)
    plan = compile_project(Project(changed, (joint,), {}), plugins)
    assert codes(plan) == expected
    if not expected:
        assert plan.group("a").target.options == {"partitioned_by": layout}


class TestOneTableHasOneWriter:
    def test_two_joints(self):
        plan = compile_joints(mart("a", "SELECT 1 AS id", table="t"), mart("b", "SELECT 1 AS id", table="T"))
        (error,) = plan.errors
        assert (error.code, error.joint) == ("RVT-310", "b")
        assert error.message == "joint 'a' writes the table lake.t already"

    def test_a_joint_and_a_sink(self):
        plan = compile_joints(mart("a", "SELECT 1 AS id", table="t"), sink("b", "a", table="t"))
        assert codes(plan) == ["RVT-310"]

    def test_a_joint_that_is_stored_in_the_workspace(self):
        found = replace(profile(), workspace="lake")
        joints = (mart("a", "SELECT 1 AS id", table="b"), sql("b", "SELECT 2 AS id"))
        plan = compile_project(Project(found, joints, {}), PLUGINS)
        (error,) = plan.errors
        assert (error.code, error.joint) == ("RVT-310", "a")
        assert "the joint 'b' is stored between groups as lake.b" in error.message

    def test_a_joint_of_the_same_name_in_the_workspace_is_its_own_table(self):
        found = replace(profile(), workspace="lake")
        joints = (mart("a", "SELECT 1 AS id"), sql("b", "SELECT * FROM a"))
        assert compile_project(Project(found, joints, {}), PLUGINS).success

    def test_a_source_reads_the_joint_instead(self):
        plan = compile_joints(mart("a", "SELECT 1 AS id", table="t"), source("t"))
        (error,) = plan.errors
        assert (error.code, error.joint) == ("RVT-310", "t")
        assert error.message == "lake.t is what the joint 'a' publishes: read a instead"


class TestColumns:
    def test_readers_see_those_of_the_query(self):
        plan = compile_joints(RAW, mart("a", "SELECT id, name AS called FROM raw"), mart("b", "SELECT nam FROM a"))
        (error,) = plan.errors
        assert (error.code, error.joint) == ("RVT-327", "b")

    def test_lineage_goes_through_the_table(self):
        plan = compile_joints(
            RAW, mart("a", "SELECT id, upper(name) AS n FROM raw"), mart("b", "SELECT n AS called FROM a")
        )
        (entry,) = plan.joint("b").lineage
        assert [(r.joint, r.column) for r in entry.upstream] == [("a", "n")]
        assert [(r.joint, r.column) for r in entry.sources or ()] == [("raw", "name")]

    def test_readers_see_those_that_a_history_adds(self):
        strategy = {"mode": "scd2", "key_columns": ["id"], "effective_at": "at", "valid_to": "until"}
        plan = compile_joints(
            RAW,
            mart("a", "SELECT * FROM raw", write_strategy=strategy),
            mart("b", "SELECT id, until, is_current FROM a WHERE valid_from > '2026-01-01'"),
        )
        assert plan.success, plan.errors
        assert [(f.name, f.type) for f in plan.joint("a").schema or ()][3:] == [
            ("valid_from", "timestamp"), ("until", "timestamp"), ("is_current", "boolean"),
        ]  # fmt: skip
        assert [(f.name, f.type) for f in plan.joint("b").schema or ()][1:] == [
            ("until", "timestamp"), ("is_current", "boolean"),
        ]  # fmt: skip
        lineage = {entry.column: entry for entry in plan.joint("b").lineage}
        assert [(r.joint, r.column) for r in lineage["until"].sources or ()] == [("raw", "at")]
        assert lineage["is_current"].sources == ()

    @pytest.mark.parametrize("change", ["add", "ignore"])
    def test_a_table_may_have_columns_from_before(self, change: str) -> None:
        strategy = {**MERGE, "on_schema_change": change}
        plan = compile_joints(
            RAW, mart("a", "SELECT id FROM raw", write_strategy=strategy), mart("b", "SELECT name FROM a")
        )
        assert plan.success, plan.errors
        (warning,) = plan.warnings
        assert (warning.code, warning.joint) == ("RVT-327", "b")
        assert warning.message.endswith("(unless the table of 'a' has it from before)")


TEXT = "SELECT * FROM raw {% if is_incremental() %} WHERE at > {{ watermark_value }} {% endif %}"
STRATEGY = {"mode": "merge", "key_columns": ["id"], "watermark_column": "at"}


class TestTemplates:
    def incremental(self, plan: CompiledAssembly, name: str) -> str | None:
        assert plan.success, plan.errors
        (cte,) = [cte for group in plan.fused_groups for cte in group.ctes if cte.joint == name]
        return cte.incremental.sink if cte.incremental is not None else None

    def test_they_speak_of_the_joints_own_table(self):
        plan = compile_joints(RAW, mart("a", TEXT, write_strategy=STRATEGY), sink("copy", "a"))
        assert self.incremental(plan, "a") == "a"

    def test_of_a_replaced_table_of_its_own_even_if_a_sink_behind_it_is_merged(self):
        plan = compile_joints(RAW, mart("a", TEXT), sink("copy", "a", write_strategy=STRATEGY))
        assert self.incremental(plan, "a") is None

    def test_of_the_one_published_joint_that_it_leads_to_whatever_comes_behind(self):
        plan = compile_joints(
            RAW,
            sql("before", TEXT),
            mart("a", "SELECT * FROM before", write_strategy=STRATEGY),
            mart("b", "SELECT * FROM a"),
        )
        assert self.incremental(plan, "before") == "a"

    def test_of_several_one_must_be_named(self):
        joints = (mart("a", "SELECT * FROM x", write_strategy=STRATEGY), sink("b", "x"))
        (error,) = compile_joints(RAW, sql("x", TEXT), *joints).errors[:1]
        assert (error.code, error.joint) == ("RVT-320", "x")
        named = TEXT.replace("()", "('a')").replace("value", "value('a')")
        assert self.incremental(compile_joints(RAW, sql("x", named), *joints), "x") == "a"

    def test_its_own_rows(self):
        text = "SELECT id FROM raw {% if is_incremental() %} EXCEPT SELECT id FROM {{ this }} {% endif %}"
        plan = compile_joints(RAW, mart("a", text, write_strategy="append"))
        (cte,) = plan.group("a").ctes
        assert cte.incremental is not None
        assert cte.incremental.this


def two_files(shape: Shape) -> tuple[Joint, ...]:
    """Return the joints with a sink for each published one, which is named as the joint with ``_table``."""
    joints: list[Joint] = []
    for joint in shape.joints:
        if joint.type == "sql" and joint.catalog is not None:
            # What readers read is stored: there it is the table itself.
            joints.append(replace(joint, catalog=None, table=None, write_strategy=WriteStrategy(), eager=True))
            joints.append(sink(f"{joint.name}_table", joint.name, write_strategy=joint.write_strategy))
        else:
            joints.append(joint)
    return tuple(joints)


@settings(max_examples=examples(12, 60), deadline=None)
@given(shapes(), st.data())
def test_a_random_project_has_the_same_groups_in_one_file_a_table_as_in_two(shape: Shape, data: st.DataObject) -> None:
    """Of two files the joint is stored and its sink copies that; of one the group of the joint is all there is."""
    modes = st.sampled_from(["replace", "append", {"mode": "merge", "key_columns": ["x"]}])
    joints = []
    for joint in shape.joints:
        publishes = joint.type == "sql" and joint.engine is None and data.draw(st.booleans())
        fields = {"catalog": "lake", "write_strategy": data.draw(modes)} if publishes else {}
        joints.append(replace(joint, **fields) if publishes else joint)
    shape = Shape(joints, shape.functions)
    one = compile_joints(*joints, functions=shape.functions)
    two = compile_joints(*two_files(shape), functions=shape.functions)
    published = [joint.name for joint in joints if joint.type == "sql" and joint.catalog is not None]
    copies = {f"{name}_table" for name in published}
    if codes(one) or codes(two):
        assert codes(one) == codes(two)
        return
    assert [g for g in two.execution_order if g not in copies] == list(one.execution_order)
    assert groups(one) == {name: members for name, members in groups(two).items() if name not in copies}
    for name in one.execution_order:
        assert one.group(name).sql == two.group(name).sql
        assert one.group(name).inputs == two.group(name).inputs
    for name in published:
        of_sink, own = two.target(f"{name}_table"), one.target(name)
        assert of_sink is not None
        assert own is not None
        assert (own.catalog, own.table, own.write) == ("lake", name, of_sink.write)
