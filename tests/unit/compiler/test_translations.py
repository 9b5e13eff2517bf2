"""RVT-329: what joints on other engines than Spark have that is not proven to give Spark's rows."""

from dataclasses import replace

import pytest
from support.projects import PLUGINS, profile, python, sink, source, sql

from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.project import Project

ORDERS = {"options": {"schema": "id INT, s STRING, d DOUBLE, m DECIMAL(6,2)"}}


def errors(*joints: Joint, support: str | None = "duckdb", functions=None):
    """Compile joints on an engine whose SQL is Spark's by a list; return the errors."""
    engines = {
        name: replace(traits, dialect="duckdb" if support else traits.dialect, sql_support=lambda spec: support)
        for name, traits in PLUGINS.engines.items()
    }
    project = Project(profile(), joints, functions or {})
    return compile_project(project, replace(PLUGINS, engines=engines)).errors


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
