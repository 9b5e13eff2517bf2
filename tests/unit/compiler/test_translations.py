"""RVT-329: what joints on other engines than Spark have that is not proven to give Spark's rows."""

from dataclasses import replace

import pytest
from support.projects import PLUGINS, profile, python, sink, source, sql

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.project import Project
from rivet_dagster.sql import translation

ORDERS = {"options": {"schema": "id INT, s STRING, d DOUBLE, m DECIMAL(6,2)"}}


def errors(*joints: Joint, support: str | None = "duckdb", functions=None, cache: CompileCache | None = None):
    """Compile joints on an engine whose SQL is Spark's by a list; return the errors."""
    engines = {
        name: replace(traits, dialect="duckdb" if support else traits.dialect, sql_support=lambda spec: support)
        for name, traits in PLUGINS.engines.items()
    }
    project = Project(profile(), joints, functions or {})
    return compile_project(project, replace(PLUGINS, engines=engines), cache).errors


def test_a_construct_that_is_not_listed_is_an_error_at_its_line():
    query = "SELECT id,\n  s,\n  hash(s) AS h\nFROM orders"
    (error,) = errors(source("orders", **ORDERS), sql("keys", query), sink("out", "keys"))
    assert (error.code, error.joint) == ("RVT-329", "keys")
    assert "hash()" in error.message
    assert error.remediation


def test_all_constructs_of_a_query_are_told_at_once():
    query = "SELECT hash(s) AS h, stack(1, 2) AS i FROM orders WHERE rand() > 0.5"
    found = errors(source("orders", **ORDERS), sql("keys", query), sink("out", "keys"))
    assert sorted(e.message.split()[3] for e in found) == ["hash(),", "rand(),", "stack(),"]


@pytest.mark.parametrize("support", ["duckdb", "sail"])
def test_types_follow_from_joint_to_joint(support):
    joints = [
        source("orders", **ORDERS),
        sql("sums", "SELECT s, sum(m * 2) AS total, max(d) AS d FROM orders GROUP BY s"),
        sql("kept", "SELECT s, total + 1 AS more FROM sums WHERE total > 10"),
        sink("out", "kept"),
    ]
    assert errors(*joints, support=support) == ()


def test_what_depends_on_types_that_only_a_run_knows_is_no_error():
    made, functions = python("made")
    joints = [made, sql("kept", "SELECT a + 1 AS b FROM made"), sink("out", "kept")]
    assert errors(*joints, functions=functions) == ()


def test_an_engine_of_spark_takes_everything():
    query = "SELECT hash(s) AS h FROM orders"
    assert errors(source("orders", **ORDERS), sql("keys", query), sink("out", "keys"), support=None) == ()


def test_expressions_of_a_source_are_checked():
    joint = source("orders", columns=(("h", "hash(id)"),), **ORDERS)
    found = errors(joint, sink("out", "orders"))
    assert {error.code for error in found} == {"RVT-329"}


def test_a_query_is_translated_once(monkeypatch: pytest.MonkeyPatch):
    joints = [
        source("orders", columns=(("h", "hash(id)"), ("s", None)), **ORDERS),
        sql("keys", "SELECT s,\n  hash(s) AS h FROM orders"),
        sql("texts", "SELECT upper(s) AS s FROM keys"),
        sink("out", "texts"),
    ]
    cache = CompileCache()
    first = errors(*joints, cache=cache)
    assert [error.joint for error in first] == ["keys", "orders"]
    monkeypatch.setattr(translation, "translate", lambda *_: pytest.fail("translated again"))
    again = CompileCache(cache.used)
    assert errors(*joints, cache=again) == first
    assert again.used == cache.used


def test_a_query_is_translated_again_for_other_types_and_for_another_engine():
    cache = CompileCache()
    query = sql("sums", "SELECT s + 1 AS n FROM orders")
    cases = [("INT", "duckdb"), ("MAP<INT, INT>", "duckdb"), ("INT", "sail"), ("INT", "duckdb")]
    joints = [[source("orders", options={"schema": f"s {kind}"}), query, sink("out", "sums")] for kind, _ in cases]
    found = [len(errors(*each, support=support, cache=cache)) for each, (_, support) in zip(joints, cases, strict=True)]
    assert found == [0, 1, 0, 0]
    assert sum(key.startswith("translation ") for key in cache.used) == 3
