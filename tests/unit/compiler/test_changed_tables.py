"""Why stored tables changed, and which columns with which readers."""

from __future__ import annotations

from support.projects import compile_joints, sink, source, sql

from rivet_dagster.compiler.diff import ColumnChange, changed_columns, changed_logic


def plan():
    """A stored joint ``a``, a joint ``b`` fused into the sink ``out``, and a sink ``other`` of another source."""
    return compile_joints(
        source("raw", options={"schema": "id BIGINT, net DOUBLE, note STRING"}),
        source("far"),
        sql("a", "SELECT id, net, note FROM raw", eager=True),
        sql("b", "SELECT net * 2 AS twice, NOTE FROM a"),
        sink("out", "b"),
        sink("other", "far"),
    )


OUT = {"out": "1", "b": "1", "a": "1"}
"""The record of a version of ``out``."""


def logic(before, after, matching=()):
    return changed_logic("out", before, after, lambda joint, record: record in matching)


def test_why_a_table_changed():
    assert logic(OUT, OUT) == "none"
    assert logic(OUT, OUT | {"out": "2"}) == "own"
    assert logic(OUT, OUT | {"b": "2"}) == "upstream"
    assert logic(OUT, OUT | {"out": "2", "b": "2"}) == "own"
    assert logic(OUT, {"out": "1"}) == "upstream"


def test_other_fusion_of_the_same_logic_is_no_change():
    other = {"out": "1", "b": "all before b"}
    assert logic(OUT, other, [OUT, other]) == "none"
    assert logic(OUT, other, [other]) == "upstream"


def test_a_table_that_the_base_lacks_and_one_of_unknown_logic():
    assert logic({}, OUT) == "own"
    assert logic({}, {}) == "own"


def test_changed_columns_and_the_joints_that_read_them():
    before = [("id", "bigint"), ("net", "double"), ("note", "string")]
    after = [("ID", "bigint"), ("note", "int"), ("vat", "float")]
    assert changed_columns(plan(), "a", before, after) == (
        ColumnChange("net", "dropped", "double", None, ("b",)),
        ColumnChange("note", "retyped", "string", "int", ("b",)),
        ColumnChange("vat", "added", None, "float"),
    )


def test_equal_columns_have_no_changes():
    assert changed_columns(plan(), "a", [("id", "int"), ("b", "int")], [("B", "int"), ("id", "int")]) == ()
