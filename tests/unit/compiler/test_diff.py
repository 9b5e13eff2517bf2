"""Differences between two plans."""

from __future__ import annotations

import json

import pytest
from support.projects import compile_joints, sink, source, sql

from rivet_dagster.compiler.diff import BrokenColumn, ChangedJoint, PlanDiff, diff_plans, read_plan
from rivet_dagster.errors import RivetError

FAR = (source("far"),)
READER = "SELECT net * 2 AS twice FROM a CROSS JOIN far"


def plan(a="SELECT id, net FROM raw", b="SELECT net * 2 AS twice FROM a", schema="id BIGINT, net DOUBLE", more=()):
    raw = source("raw", options={"schema": schema})
    return compile_joints(raw, sql("a", a, eager=True), sql("b", b), sink("out", "b"), *more)


def test_equal_plans_have_no_difference():
    assert diff_plans(plan(), plan()).empty
    assert diff_plans(plan(), plan(a="select ID, net -- why\nFROM raw;")).empty


def test_a_plan_read_from_json_has_no_difference():
    one = plan()
    assert diff_plans(read_plan(one.to_json(), "old.json"), one) == PlanDiff()


def test_a_plan_of_an_earlier_release_is_read():
    """In earlier releases every joint had every field, and groups had no query."""
    one = plan()
    data = json.loads(one.to_json())
    fields = {name for joint in data["joints"] for name in joint} | {"template", "function_file"}
    for joint in data["joints"]:
        joint |= dict.fromkeys(fields - set(joint))
    for group in data["fused_groups"]:
        del group["query"]
    old = read_plan(json.dumps(data), "old.json")
    assert old.joints == one.joints
    assert diff_plans(old, one) == PlanDiff()


def test_added_and_removed():
    more = plan(more=[sql("c", "SELECT 1 AS x")])
    assert diff_plans(plan(), more) == PlanDiff(added=("c",))
    assert diff_plans(more, plan()) == PlanDiff(removed=("c",))


def test_changes_propagate_downstream():
    diff = diff_plans(plan(), plan(a="SELECT id, net FROM raw WHERE net > 0"))
    assert diff.changed == (
        ChangedJoint("a", "own"),
        ChangedJoint("b", "upstream", ("a",)),
        ChangedJoint("out", "upstream", ("b",)),
    )
    assert diff.breaking == ()


def test_a_joint_that_replaces_a_table_changes_its_readers():
    before = plan(b="SELECT net * f AS twice FROM a JOIN rates")
    after = plan(b="SELECT net * f AS twice FROM a JOIN rates", more=[sql("rates", "SELECT 2 AS f")])
    assert ChangedJoint("b", "upstream", ("rates",)) in diff_plans(before, after).changed
    assert ChangedJoint("b", "upstream", ("rates",)) in diff_plans(after, before).changed


def test_a_removed_column_breaks_its_readers():
    """If all columns that the reader reads are known, it no longer compiles."""
    diff = diff_plans(plan(b=READER, more=FAR), plan(a="SELECT id FROM raw", b=READER, more=FAR))
    assert diff.breaking == (BrokenColumn("a", "net", "removed", "double", None, ("b",)),)


def test_a_removed_column_without_readers_breaks_nothing():
    assert diff_plans(plan(), plan(a="SELECT net FROM raw")).breaking == ()


def test_a_reader_that_no_longer_uses_the_column_is_not_broken():
    diff = diff_plans(plan(), plan(a="SELECT id FROM raw", b="SELECT id AS twice FROM a"))
    assert [one.joint for one in diff.breaking] == ["b"]  # the sink's column has another type now


def test_a_retyped_column():
    diff = diff_plans(plan(), plan(schema="id BIGINT, net INT"))
    assert BrokenColumn("raw", "net", "retyped", "double", "int", ("a",)) in diff.breaking
    assert ChangedJoint("raw", "own") in diff.changed


@pytest.mark.parametrize(
    "text",
    ["", "no json", "[]", "{}", "3", '{"success": true}', '{"success": true, "profile": "x", "joints": [5]}',
     '{"success": true, "profile": "x", "joints": null}', "[" * 100_000],
)  # fmt: skip
def test_a_file_that_is_no_plan_is_rejected(text):
    with pytest.raises(RivetError, match=r"RVT-113 old\.json"):
        read_plan(text, "old.json")


@pytest.mark.parametrize(("key", "value"), [("name", 3), ("schema", "id BIGINT"), ("upstream", None), ("lineage", 3)])
def test_a_plan_whose_joint_has_another_shape_is_rejected(key, value):
    data = json.loads(plan().to_json())
    data["joints"][0][key] = value
    with pytest.raises(RivetError, match=r"RVT-113 old\.json"):
        read_plan(json.dumps(data), "old.json")


def test_a_plan_with_errors_is_rejected():
    with pytest.raises(RivetError, match="did not compile"):
        read_plan(compile_joints(sink("out", "nowhere")).to_json(), "old.json")


def test_json():
    data = json.loads(diff_plans(plan(b=READER, more=FAR), plan(a="SELECT id FROM raw", b=READER, more=FAR)).to_json())
    assert list(data) == ["added", "removed", "changed", "breaking"]
    assert data["breaking"][0]["readers"] == ["b"]
