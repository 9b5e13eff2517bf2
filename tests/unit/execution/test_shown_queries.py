"""The queries and parameters in the plan are those that the engine gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from support.projects import compile_joints, sink, source, sql
from support.random_projects import Shape, shapes
from support.recording import recorded_query
from support.torture import examples

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.loading import compile_directory
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.partitions import parse_partitions
from rivet_dagster.sql.target import parameters

EXAMPLE = Path(__file__).parents[3] / "example_repo"
DAYS = parse_partitions({"type": "daily", "column": "day", "start": "2024-01-01"})
MERGE = {"mode": "merge", "key_columns": ["id"], "watermark_column": "at"}
TEMPLATES = (
    source("raw", options={"schema": "id INT, at INT, day DATE"}),
    sql("news", "SELECT * FROM raw{% if is_incremental() %} WHERE at > {{ watermark_value }}{% endif %}"),
    sql("seen", "SELECT *, {{ run_started_at }} AS seen FROM news -- {{ run_started_at }}"),
    sql("fresh", "SELECT * FROM seen{% if is_incremental() %} WHERE id NOT IN (SELECT id FROM {{ this }}){% endif %}"),
    sql("stored", "SELECT * FROM raw{% if is_incremental('days') %} WHERE day >= :partition_start{% endif %}",
        partitions=DAYS),
    sink("out", "fresh", write_strategy=MERGE),
    sink("days", "stored", partitions=DAYS, write_strategy={"mode": "merge", "key_columns": ["id"]}),
)  # fmt: skip
FAST = settings(max_examples=examples(12, 60), deadline=None, database=None, derandomize=True,
                suppress_health_check=list(HealthCheck))  # fmt: skip


def assert_shown_is_asked(monkeypatch: pytest.MonkeyPatch, plan: CompiledAssembly) -> None:
    for group in plan.fused_groups:
        if plan.joint(group.exit).type == SOURCE:
            continue
        for later, shown in ((False, group.sql), (True, group.sql_incremental or group.sql)):
            text, bound, views = recorded_query(monkeypatch, plan, group, later)
            assert text == shown
            assert views >= set(group.inputs) or text is None
            if len(bound) == 1:
                assert set(bound[0]) == set(parameters(shown))


def test_queries_of_the_example(monkeypatch):
    assert_shown_is_asked(monkeypatch, compile_directory(EXAMPLE))


def test_queries_of_templates(monkeypatch):
    plan = compile_joints(*TEMPLATES).raise_errors()
    assert [group.sql_incremental is not None for group in plan.fused_groups] == [False, True, True]
    assert_shown_is_asked(monkeypatch, plan)
    _, (values,), views = recorded_query(monkeypatch, plan, plan.group("out"), later=True)
    assert set(values) == {"watermark_of_out", "run_started_at"}
    assert "_rivet_this_out" in views


def test_queries_of_a_joint_within_a_group(monkeypatch):
    plan = compile_joints(*TEMPLATES).raise_errors()
    text, (values,), _ = recorded_query(monkeypatch, plan, plan.group("out"), later=True, joint="news")
    assert text == "WITH news AS (\nSELECT * FROM raw WHERE at > :watermark_of_out\n)\nSELECT * FROM news"
    assert set(values) == {"watermark_of_out"}
    assert recorded_query(monkeypatch, plan, plan.group("out"), later=False, joint="news")[1] == [{}]


@FAST
@given(shapes())
def test_queries_of_random_projects(shape: Shape) -> None:
    plan = compile_joints(*shape.joints, functions=shape.functions, max_fusion_depth=6)
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert_shown_is_asked(monkeypatch, plan)
        for group in plan.fused_groups:
            for cte in group.ctes:
                text, _, _ = recorded_query(monkeypatch, plan, group, later=False, joint=cte.joint)
                assert text == group.query.of(cte.joint).text()
