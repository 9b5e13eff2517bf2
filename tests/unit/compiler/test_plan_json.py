"""A plan read from JSON equals the original, so the state of a component equals the compiled plan."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, make_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from support.folders import ProjectFolder
from support.projects import compile_joints, sink, sql
from support.random_projects import Shape, shapes
from support.torture import examples

from rivet_dagster.compiler.joints import FunctionJoint, QueryJoint, SinkJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.plan_json import fingerprint, write
from rivet_dagster.loading import compile_directory
from rivet_dagster.model.step_options import StepOptions
from rivet_dagster.model.write_strategy import MODES

EXAMPLE = Path(__file__).parents[3] / "example_repo"
DAYS = {"type": "daily", "column": "day", "start": "2024-01-01", "end": "2024-02-01", "timezone": "Europe/Berlin"}
REGIONS = {"type": "static", "column": "region", "values": ["eu", "us"]}
STRATEGIES = {
    "append": {},
    "replace": {"on_empty": "skip"},
    "truncate_insert": {"on_schema_change": "add"},
    "merge": {"key_columns": ["id", "day"], "watermark_column": "day", "lookback": "3d", "order_by": ["day"]},
    "delete_insert": {"partition_by": ["day", "region"], "watermark_column": "id", "lookback": 5},
    "snapshot": {"partition_column": "day"},
    "incremental_append": {"watermark_column": "day"},
    "scd2": {"unique_key": "id", "track_columns": ["region"], "close_missing": True, "valid_to": "until"},
}
FILES = {
    "rivet.yaml": {
        "profiles": "profiles.yaml",
        "sources": "sources",
        "joints": "joints",
        "sinks": "sinks",
        "quality": "quality",
        "dagster": {
            "key_prefix": ["shop", "eu"],
            "io_manager_key": "shop_io",
            "schedules": {
                "nightly": {"target": "kind:sink", "cron_schedule": "0 2 * * *", "execution_timezone": "Europe/Berlin"},
                "sweeping": {"type": "sweep", "cron_schedule": "0 4 * * *", "default_status": "RUNNING"},
                "upkeep": {"type": "upkeep", "cron_schedule": "0 5 * * *", "catalogs": ["raw"]},
            },
            "observe": {"hourly": {"sources": ["orders"], "cron_schedule": "0 * * * *"}},
            "exposures": {"board": {"depends_on": ["paid"], "owners": ["team:sales"], "url": "x", "description": "y"}},
            "sensors": {
                "landed": {"type": "files", "source": "orders", "target": "kind:sink"},
                "moved": {"type": "source_changed", "sources": ["orders", "regions"], "target": "kind:sink"},
                "after": {"type": "after_success", "monitored": "kind:python", "target": "kind:sink"},
                "clean_up": {"type": "sweep", "minimum_interval_seconds": 60},
            },
            "automation": [
                {"target": "kind:sink", "condition": "eager"},
                {"target": "kind:sql", "condition": "on_cron", "cron_schedule": "0 3 * * *", "timezone": "UTC"},
            ],
            "freshness": [
                {"target": "kind:sink", "time_window": {"fail_window": "24h", "warn_window": "12h"}},
                {"target": "kind:sql", "cron": {"deadline_cron": "0 3 * * *", "lower_bound_delta": "1h"}},
            ],
        },
    },
    "sources/orders.yaml": {
        "type": "source",
        "catalog": "raw",
        "table": "orders",
        "columns": ["id", "day", {"region": "lower(region)"}],
        "filter": "id > 0",
        "options": {"landing": True, "archive": True, "sep": ";", "schema": "id BIGINT, day DATE, region STRING"},
        "tags": {"layer": "raw", "fresh": None},
    },
    "sources/regions.yaml": {
        "type": "source",
        "catalog": "raw",
        "table": "regions.csv",
        "quality": {
            "assertions": [
                {"type": "accepted_values", "column": "region", "values": ["eu", "us"], "samples": 3},
                {"type": "schema", "columns": {"region": "STRING"}, "tags": ["a"], "timeout": "60s"},
            ]
        },
    },
    "joints/paid.sql": (
        "-- rivet:assert: not_null(id, day)\n"
        "SELECT o.id, o.day, o.region FROM orders AS o"
        "{% if is_incremental('merge_table') %} WHERE o.day > {{ watermark_value('merge_table') }}{% endif %}\n"
    ),
    "joints/rare.sql": (
        "-- rivet:eager: true\n-- rivet:retention: run\n-- rivet:options: {retries: 2, retry_delay: 30s}\n"
        "SELECT id, day, region, rand() AS chance FROM paid\n"
    ),
    "joints/scored.py": "# rivet:owners: [team:data]\ndef transform(rare):\n    return rare\n",
    "joints/daily.sql": f"-- rivet:partitions: {DAYS}\nSELECT id, day, region FROM paid\n".replace("'", '"'),
    "quality/daily.yaml": {
        "audits": [
            {"type": "relationship", "column": "region", "to": "regions.region", "severity": "warn"},
            {"type": "freshness", "column": "day", "max_age": "24h", "remediation": "Wake somebody."},
        ]
    },
    "sinks/daily_table.yaml": {
        "type": "sink",
        "upstream": ["daily"],
        "catalog": "lake",
        "table": "daily",
        "partitions": DAYS,
    },
    "sinks/region_table.yaml": {
        "type": "sink",
        "upstream": ["paid"],
        "catalog": "lake",
        "table": "region",
        "partitions": REGIONS,
        "options": {"compression": "zstd"},
    },
    **{
        f"sinks/{mode}_table.yaml": {
            "type": "sink",
            "upstream": ["paid"],
            "catalog": "lake",
            "table": mode,
            "write_strategy": {"mode": mode, **options},
        }
        for mode, options in STRATEGIES.items()
    },
}


def test_a_plan_of_every_feature_survives_json(tmp_path):
    plan = ProjectFolder(tmp_path, FILES).assembly
    assert set(STRATEGIES) == set(MODES)
    assert plan.joint("orders").landing is not None
    assert [cte.incremental.sink for cte in plan.group("paid").ctes] == ["merge_table"]
    assert plan.joint("daily").partitions is not None
    assert all([plan.materializations, plan.joint("paid").lineage, plan.joint("rare").step != StepOptions()])
    for whole in (plan.dagster, plan.dagster.sensors):
        assert [field.name for field in fields(whole) if getattr(whole, field.name) == field.default] == []
    assert_survives(plan)


PROMISED = (
    "name", "type", "engine", "upstream", "schema", "schema_confidence", "group", "code_version", "catalog", "table",
    "checks",
)  # fmt: skip


def test_each_joint_has_its_type_and_its_table(tmp_path):
    plan = ProjectFolder(tmp_path, FILES).assembly
    kinds = {"source": SourceJoint, "sql": QueryJoint, "python": FunctionJoint, "sink": SinkJoint}
    assert {joint.type for joint in plan.joints} == set(kinds)
    shown = {joint["name"]: joint for joint in json.loads(plan.to_json())["joints"]}
    for joint in plan.joints:
        assert type(joint) is type(CompiledAssembly.from_json(plan.to_json()).joint(joint.name)) is kinds[joint.type]
        assert set(PROMISED) <= set(shown[joint.name])
        target = plan.target(joint.name)
        if not isinstance(joint, SourceJoint):
            assert (target is not None) == (joint.group == joint.name)
            assert (joint.catalog, joint.table) == ((target.catalog, target.table) if target else (None, None))
    assert [shown[name]["table"] for name in ("orders", "rare", "append_table")] == ["orders", "rare", "append"]


def test_a_joint_within_a_query_has_no_table():
    plan = compile_joints(sql("a", "SELECT 1 AS id"), sink("out", "a"))
    inner, out = json.loads(plan.to_json())["joints"]
    assert (inner["name"], inner["catalog"], inner["table"]) == ("a", None, None)
    assert (out["name"], out["catalog"], out["table"]) == ("out", "lake", "out")


def test_the_plan_of_the_example_survives_json():
    assert_survives(compile_directory(EXAMPLE))


def test_a_plan_with_warnings_and_errors_survives_json(tmp_path):
    plan = compile_directory(
        ProjectFolder(
            tmp_path, {**FILES, "joints/wrong.sql": "SELECT FROM FROM", "joints/odd.sql": "SELECT * FROM ordres"}
        ).root
    )
    assert plan.errors
    assert plan.warnings
    assert_survives(plan)


def test_the_text_is_that_of_the_json_module(tmp_path):
    plan = ProjectFolder(tmp_path, FILES).assembly
    data = {"success": True, **{field.name: getattr(plan, field.name) for field in fields(plan)}}
    assert plan.to_json() == json.dumps(data, indent=2, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if not is_dataclass(value):
        return list(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


@pytest.mark.parametrize(
    "value",
    [
        {"a": {"b": [1, 2.5, True, None, '\u00e9\n"', {}], "c": []}, 1: {2: (3, {"d": ()})}, None: False, 0.5: 1e300},
        [[], [[]], {"a": {}}, ()],
        "text",
        0,
    ],
)
def test_options_are_written_as_the_json_module_does(value):
    assert write(value) == json.dumps(value, indent=2, ensure_ascii=False)


def test_plans_of_another_shape_have_another_fingerprint():
    """The state of a component that was written before a field came is compiled anew, not read with a default."""
    widened = make_dataclass("Check", [("name", "str"), ("constraint", "str | None", None)])
    same = make_dataclass("Check", [("name", "str")])

    def plan(check: type) -> str:
        return fingerprint(make_dataclass("Plan", [("checks", tuple[check, ...])]))

    assert plan(same) == plan(make_dataclass("Check", [("name", "str")])) != plan(widened)
    assert fingerprint(CompiledAssembly) == fingerprint(CompiledAssembly) != fingerprint(StepOptions)


@pytest.mark.slow
@settings(
    max_examples=examples(20, 100),
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(shapes())
def test_the_plan_of_any_graph_survives_json(shape: Shape) -> None:
    assert_survives(compile_joints(*shape.joints, functions=shape.functions))


def assert_survives(plan: CompiledAssembly) -> None:
    """Assert that the plan read from JSON is equal in every value, and its JSON byte for byte."""
    text = plan.to_json()
    again = CompiledAssembly.from_json(text)
    assert again == plan
    assert again.to_json() == text
    assert repr(again) == repr(plan)
