"""Groups that quarantine row errors: their targets, boundaries, tables, checks and refusals."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.projects import PLUGINS, codes, groups, profile, python, reasons, sink, source, sql

from rivet_dagster.cli.compile.outline import plan_text
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.group_query import Cte, GroupQuery, Incremental
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.compiler.quarantine import check_quarantine
from rivet_dagster.model.check_plan import ByErrors
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.project import Project, PythonFunction
from rivet_dagster.model.row_errors import ErrorTable, MaxErrors, NotSeparable, RowErrors
from rivet_dagster.model.target import Target
from rivet_dagster.model.text_lines import Origin

ABLE = replace(PLUGINS, catalogs={"filesystem": replace(PLUGINS.catalogs["filesystem"], error_tables=True)})
UNABLE = replace(PLUGINS, catalogs={"filesystem": replace(PLUGINS.catalogs["filesystem"], error_tables=False)})
RAW = source("raw")


def compiled(*joints: Joint, functions: dict[str, PythonFunction] | None = None, plugins=ABLE) -> CompiledAssembly:
    return compile_project(Project(profile(), joints, functions or {}), plugins)


def error_tables(plan: CompiledAssembly) -> dict[str, ErrorTable]:
    assert plan.success, plan.errors
    return {g.name: g.target.errors for g in plan.fused_groups if g.target is not None and g.target.errors is not None}


def a(**fields) -> Joint:
    return sql("a", "SELECT * FROM raw", **fields)


# --- targets and boundaries ---


def test_the_mode_of_the_exit_is_that_of_its_group():
    plan = compiled(RAW, a(), sql("b", "SELECT * FROM a"), sink("out", "b", on_error="quarantine"))
    assert groups(plan) == {"out": ("raw", "a", "b", "out")}
    assert error_tables(plan) == {"out": ErrorTable("out__errors")}
    assert error_tables(compiled(RAW, a(), sink("out", "a"))) == {}
    assert error_tables(compiled(RAW, a(), sink("out", "a", on_error="fail"))) == {}


def test_the_error_table_can_be_named_and_limited():
    bounded = {"mode": "quarantine", "max_errors": "5%", "errors_table": "bad", "max_age": "30d"}
    plan = compiled(RAW, a(), sink("out", "a", table="report", on_error=bounded), sink("two", "a", on_error="fail"))
    assert error_tables(plan) == {"out": ErrorTable("bad", MaxErrors(percent=5.0), 30)}
    named = compiled(RAW, a(), sink("out", "a", table="report", on_error="quarantine"))
    assert error_tables(named) == {"out": ErrorTable("report__errors")}


def test_the_error_table_of_a_stored_joint_is_in_the_workspace():
    plan = compiled(RAW, a(eager=True, on_error="quarantine"), sink("out", "a"))
    assert error_tables(plan) == {"a": ErrorTable("a__errors")}
    target = plan.target("a")
    assert target is not None
    assert target.catalog == "workspace"


@pytest.mark.parametrize(
    ("mode", "of_exit", "stands_alone"),
    [
        (None, None, False), (None, "fail", False), (None, "quarantine", False),
        ("fail", None, False), ("fail", "fail", False), ("fail", "quarantine", True),
        ("quarantine", None, True), ("quarantine", "fail", True), ("quarantine", "quarantine", False),
    ],
)  # fmt: skip
def test_a_joint_that_declares_another_mode_stands_alone(mode, of_exit, stands_alone):
    plan = compiled(RAW, a(on_error=mode), sql("b", "SELECT * FROM a"), sink("out", "b", on_error=of_exit))
    assert reasons(plan) == ({"a": "error_boundary"} if stands_alone else {})
    assert set(groups(plan)) == ({"a", "out"} if stands_alone else {"out"})
    expected = {"a"} if stands_alone and mode == "quarantine" else set()
    assert error_tables(plan).keys() == expected | ({"out"} if of_exit == "quarantine" else set())


def test_a_joint_before_a_boundary_belongs_to_the_boundary():
    b = sql("b", "SELECT * FROM a", on_error="quarantine")
    plan = compiled(RAW, a(on_error="quarantine"), b, sql("c", "SELECT * FROM b"), sink("out", "c"))
    assert groups(plan) == {"b": ("raw", "a", "b"), "out": ("c", "out")}
    assert reasons(plan) == {"b": "error_boundary"}
    assert error_tables(plan) == {"b": ErrorTable("b__errors")}


def test_other_reasons_come_first():
    function, functions = python("p", "a")
    plan = compiled(RAW, a(on_error="quarantine"), function, functions=functions)
    assert reasons(plan) == {"a": "python_boundary"}
    assert error_tables(plan) == {"a": ErrorTable("a__errors")}
    other = compiled(RAW, a(on_error="quarantine", engine="other"), sink("out", "a"))
    assert "a" not in reasons(other) or reasons(other) == {"a": "engine_change"}


def test_a_limit_belongs_to_the_exit():
    limited = {"mode": "quarantine", "max_errors": 5}
    plan = compiled(RAW, a(on_error=limited), sink("out", "a", on_error="quarantine"))
    (error,) = plan.errors
    assert (error.code, error.joint) == ("RVT-326", "a")
    assert error.message.startswith("`max_errors` belongs to 'out'")
    assert compiled(RAW, a(on_error=limited), sink("out", "a", on_error=limited)).success  # as a default would give it
    aged = {"mode": "quarantine", "max_age": "7d"}
    (error,) = compiled(RAW, a(on_error=aged), sink("out", "a", on_error="quarantine")).errors
    assert error.message.startswith("`max_age` belongs to 'out'")


def test_only_the_mode_is_part_of_the_code_version():
    def version(on_error) -> str:
        return compiled(RAW, a(eager=True, on_error=on_error)).joint("a").code_version

    assert version(None) == version("fail") != version("quarantine")
    details = {"max_errors": 5, "errors_table": "x", "max_age": "7d"}
    assert version({"mode": "quarantine", **details}) == version("quarantine")


# --- tables ---


def test_a_catalog_without_error_tables_is_refused():
    plan = compiled(RAW, a(eager=True, on_error="quarantine"), sink("out", "a", on_error="quarantine"), plugins=UNABLE)
    assert [(error.code, error.joint) for error in plan.errors] == [("RVT-312", "a"), ("RVT-312", "out")]
    assert plan.errors[1].message == ("the catalog 'lake' (filesystem) publishes no error tables beside its tables")
    assert compiled(RAW, a(), sink("out", "a"), plugins=UNABLE).success


QUARANTINE = {"on_error": "quarantine"}


def into(table: str) -> dict[str, dict[str, str]]:
    return {"on_error": {"mode": "quarantine", "errors_table": table}}


@pytest.mark.parametrize(
    ("joints", "joint", "message"),
    [
        (
            [sink("orders", "raw", **QUARANTINE), sink("x", "raw", table="Orders__errors")],
            "orders", "its error table is lake.orders__errors: sink 'x' writes the table lake.Orders__errors already",
        ),
        (
            [sink("x", "raw", **QUARANTINE), sink("y", "raw", **into("x__errors"))],
            "y", "sink 'x' writes its errors to the table lake.x__errors already",
        ),
        (
            [sink("x", "raw", **into("x"))],
            "x", "its rows and their errors are both written to lake.x",
        ),
        (
            [sink("x", "raw", **QUARANTINE), source("y", table="x__errors")],
            "y", "lake.x__errors is the error table of 'x': read its asset instead",
        ),
        (
            [sink("x", "raw", **QUARANTINE), source("y", table="*")],
            "y", "lake.* holds what the sink 'x' writes as lake.x: read raw instead",
        ),
        (
            [a(eager=True, **QUARANTINE), sql("a__errors", "SELECT 1 AS x")],
            "a", "the joint 'a__errors' is stored between groups as workspace.a__errors",
        ),
        (
            [a(eager=True, **QUARANTINE), sink("x", "raw", catalog="workspace", table="a__errors")],
            "x", "the errors of the joint 'a' are stored as workspace.a__errors",
        ),
        (
            [a(eager=True), sink("x", "raw", catalog="workspace", table="y", **into("a"))],
            "x", "the joint 'a' is stored between groups as workspace.a",
        ),
    ],
)  # fmt: skip
def test_an_error_table_is_a_table_like_others(joints, joint, message):
    (error,) = [error for error in compiled(RAW, *joints).errors if error.code == "RVT-310"]
    assert (error.joint, error.message) == (joint, message)


def test_error_tables_that_differ_are_no_error():
    plan = compiled(
        RAW, a(**QUARANTINE), sink("x", "a", **QUARANTINE), sink("y", "raw", table="x_errors", **QUARANTINE)
    )
    assert plan.success, plan.errors


def test_a_joint_must_not_be_named_as_the_asset_of_errors():
    plan = compiled(RAW, sink("x", "raw", **QUARANTINE), sink("x__errors", "raw", table="other"))
    (error,) = plan.errors
    assert (error.code, error.joint) == ("RVT-301", "x__errors")


def test_a_joint_must_not_read_the_asset_of_errors():
    plan = compiled(sink("x", "raw", **QUARANTINE), RAW, source("y", catalog="dagster", table="x__errors"))
    (error,) = plan.errors
    assert (error.code, error.joint) == ("RVT-310", "y")
    assert error.message == "the asset x__errors holds the row errors of 'x', which joints cannot read"


def test_the_catalog_refuses_the_name_of_an_error_table():
    plan = compiled(RAW, sink("x", "raw", **into("a/b")))
    (error,) = plan.errors
    assert (error.code, error.joint) == ("RVT-204", "x")
    assert error.message.startswith("the name of its error table: ")


# --- queries that are not separable ---


def not_separable(*ctes: Cte, quarantines: bool = True) -> list[tuple[str, str | None, int | None, str]]:
    origin = Origin("joints/a.sql", 1, {"sql": 3})
    target = Target(catalog="lake", table="a", errors=ErrorTable("a__errors") if quarantines else None)
    group = FusedGroup(
        name="a", engine="spark", joints=("a",), exit="a", inputs=(), target=target,
        query=GroupQuery(("a",), ctes), sql="",
    )  # fmt: skip
    graph = Graph({"a": replace(sql("a", "SELECT 1 AS x"), origin=origin)}, {"a": ()}, {}, {})
    diagnostics = Diagnostics()
    check_quarantine(SimpleNamespace(groups=[group], graph=graph, diagnostics=diagnostics))
    return [(d.code, d.file, d.line, d.message) for d in diagnostics.errors]


def test_a_query_that_is_not_separable_is_refused_at_its_line():
    wrong = NotSeparable(construct="a recursive WITH", line=4)
    ((code, file, line, message),) = not_separable(Cte("a", "", (), errors=wrong))
    assert (code, file, line) == ("RVT-330", "joints/a.sql", 6)
    assert message.startswith("a recursive WITH: ")
    assert not_separable(Cte("a", "", (), errors=wrong), quarantines=False) == []


def test_so_is_one_of_incremental_runs_alone():
    wrong = NotSeparable(construct="TABLESAMPLE", line=2)
    good = RowErrors(good="", queries=())
    later = Incremental("", "out", errors=wrong)
    assert [line for _, _, line, _ in not_separable(Cte("a", "", (), incremental=later, errors=good))] == [4]
    both = Cte("a", "", (), incremental=later, errors=wrong)
    assert len(not_separable(both)) == 1
    assert not_separable(Cte("a", "", (), errors=good), Cte("a", "", ())) == []


# --- the check ---


def test_an_exit_that_quarantines_has_a_check_of_its_errors():
    not_null = {"audits": [{"type": "not_null", "columns": ["id"]}]}
    plan = compiled(RAW, a(), sink("out", "a", quality=not_null, **QUARANTINE))
    own, check = plan.joint("out").checks
    assert own.name == "audit_not_null_id"
    assert (check.name, check.kind, check.phase) == ("evaluation_errors", "evaluation_errors", "audit")
    assert (check.severity, check.blocking) == ("warn", False)
    assert check.queries.counting == ByErrors()
    assert plan.joint("a").checks == ()
    assert CompiledAssembly.from_json(plan.to_json()) == plan


def test_with_a_limit_it_blocks():
    limited = {"mode": "quarantine", "max_errors": 100}
    (check,) = compiled(RAW, sink("out", "raw", on_error=limited)).joint("out").checks
    assert check.blocking
    assert check.queries.counting == ByErrors(max_errors=MaxErrors(count=100))
    assert "more than 100 of them fail it" in (check.description or "")


def test_the_greatest_age_of_errors_is_shown():
    plan = compiled(RAW, sink("out", "raw", on_error={"mode": "quarantine", "max_age": "90d"}))
    (check,) = plan.joint("out").checks
    assert (check.description or "").endswith(
        "published as lake.out__errors; those found more than 90 days ago are removed."
    )
    assert "lake.out__errors  (for 90 days)" in plan_text(plan)
    assert not check.blocking


def test_a_declared_check_of_its_name_is_renamed():
    own = {"assertions": [{"type": "row_count", "min": 1, "name": "evaluation_errors"}]}
    checks = compiled(RAW, sink("out", "raw", quality=own, **QUARANTINE)).joint("out").checks
    assert [(c.name, c.kind) for c in checks] == [
        ("evaluation_errors_2", "row_count"), ("evaluation_errors", "evaluation_errors"),
    ]  # fmt: skip


def test_the_check_is_no_boundary_of_its_own():
    plan = compiled(RAW, a(**QUARANTINE), sink("out", "a", **QUARANTINE))
    assert reasons(plan) == {}
    assert codes(plan) == []


def test_an_engine_that_cannot_separate_errors_refuses_to_quarantine():
    other = replace(ABLE.engines["pyspark"], separates_errors=False)
    plugins = replace(ABLE, engines={"pyspark": other})
    plan = compiled(RAW, a(), sink("out", "a", on_error="quarantine"), plugins=plugins)
    assert [(error.code, error.joint) for error in plan.errors] == [("RVT-329", "out")]
    assert "pyspark" in plan.errors[0].message
    assert compiled(RAW, a(), sink("out", "a"), plugins=plugins).success


# --- expressions of sources ---


def raw(lines: dict[str, int] | None = None, **fields) -> Joint:
    return replace(source("raw", **fields), origin=Origin("sources/raw.yaml", 1, lines or {}))


def test_a_source_whose_expressions_can_fail_is_a_part_of_a_quarantining_query():
    casting = raw(columns=["id", {"n": "CAST(s AS INT)"}], filter="n_of_them > 1", limit=5)
    plan = compiled(casting, a(), sink("out", "a", on_error="quarantine"))
    group = plan.group("out")
    assert group.sql == (
        "WITH raw AS (\nSELECT\nid,\nCAST(s AS INT) AS n\nFROM _rivet_source_raw\nWHERE n_of_them > 1\nLIMIT 5\n),\n"
        "a AS (\nSELECT * FROM raw\n)\nSELECT * FROM a"
    )
    assert [(cte.joint, cte.upstream, cte.errors is not None) for cte in group.ctes] == [
        ("raw", ("_rivet_source_raw",), True), ("a", ("raw",), False),
    ]  # fmt: skip
    assert group.query is not None
    errors = group.query.errors()
    assert errors is not None
    assert [query.inputs for query in (*group.query.good(), errors)] == [("_rivet_source_raw",)] * 2
    assert (
        compiled(casting, a(), sink("out", "a")).group("out").sql
        == "WITH a AS (\nSELECT * FROM raw\n)\nSELECT * FROM a"
    )
    assert CompiledAssembly.from_json(plan.to_json()) == plan


def test_a_source_in_which_nothing_can_fail_is_read_as_it_is():
    harmless = raw(columns=["id", {"n": "upper(s)"}], filter="s IS NOT NULL")
    group = compiled(harmless, a(), sink("out", "a", on_error="quarantine")).group("out")
    assert ([cte.joint for cte in group.ctes], group.sql) == (
        ["a"],
        "WITH a AS (\nSELECT * FROM raw\n)\nSELECT * FROM a",
    )


def test_each_reader_decides_by_its_own_mode():
    casting = raw(columns=[{"n": "CAST(s AS INT)"}])
    plan = compiled(casting, sink("one", "raw", on_error="quarantine"), sink("two", "raw"))
    assert {g.name: [cte.joint for cte in g.ctes] for g in plan.fused_groups if g.target} == {"one": ["raw"], "two": []}


@pytest.mark.parametrize(
    ("fields", "lines", "line"),
    [
        ({"columns": [{"b": "a"}, {"n": "our_function(s)"}]}, {"columns": 4, "columns.b": 5, "columns.n": 6}, 6),
        ({"columns": [{"n": "a +\nour_function(s)"}]}, {"columns": 4, "columns.n": 6}, 7),
        ({"columns": ["a"], "filter": "a > 0 AND\nour_function(a)"}, {"columns": 4, "filter": 9}, 10),
        ({"columns": [{"n": "our_function(s)"}]}, {}, 1),
    ],
    ids=["column", "second line", "filter", "unknown"],
)
def test_an_expression_of_a_source_that_is_not_separable_is_refused_at_its_line(fields, lines, line):
    plan = compiled(raw(lines, **fields), a(), sink("out", "a", on_error="quarantine"))
    ((code, joint, file, found),) = [(e.code, e.joint, e.file, e.line) for e in plan.errors]
    assert (code, joint, file, found) == ("RVT-330", "raw", "sources/raw.yaml", line)
    assert "our_function" in plan.errors[0].message
    assert compiled(raw(lines, **fields), a(), sink("out", "a")).success
