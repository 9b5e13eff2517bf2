"""Automation rules: what Dagster requests when a source has a new version, a gate fails, a cron schedule ticks."""

from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from support.folders import MANIFEST, ProjectFolder, sink, source

from rivet_dagster import DagsterRivetTranslator, RivetError, automation_condition, load_definitions

pytestmark = pytest.mark.filterwarnings("ignore:Parameter `include_sources`")  # the default of the sensor

GATE = {"assertions": [{"type": "not_null", "columns": ["id"], "name": "gate"}]}
GROUP = {
    "sources/orders.yaml": source("orders.csv", "id INT"),
    "sources/countries.yaml": source("countries.csv", "id INT"),
    "joints/a.sql": "SELECT o.id FROM orders AS o, countries",
    "joints/b.sql": "SELECT id + 1 AS id FROM a",
    "sinks/out.yaml": sink("out", "b"),
}
TWO_GROUPS = {
    "sources/orders.yaml": source("orders.csv", "id INT"),
    "joints/mid.yaml": {"type": "sql", "sql": "SELECT id FROM orders", "eager": True, "quality": GATE},
    "joints/b.sql": "SELECT id + 1 AS id FROM mid",
    "sinks/out.yaml": sink("out", "b"),
}
START = datetime(2024, 3, 10, 12, tzinfo=UTC)


def ruled(*rules: dict[str, Any], freshness: list[Any] | None = None) -> dict[str, Any]:
    return {"rivet.yaml": {**MANIFEST, "dagster": {"automation": list(rules), "freshness": freshness or []}}}


class Ticks:
    """Ticks of the sensor that evaluates conditions, one minute apart."""

    def __init__(self, folder: ProjectFolder, instance: dg.DagsterInstance, start: datetime = START) -> None:
        self.folder = folder
        self.instance = instance
        self.time = start
        self.cursor: Any = None

    def __call__(self, minutes: float = 1) -> set[str]:
        """Return the requested joints, and the checks as JOINT:CHECK."""
        definitions = load_definitions(self.folder.root)
        graph = definitions.resolve_asset_graph()
        found = dg.evaluate_automation_conditions(
            definitions,
            self.instance,
            dg.AssetSelection.all(include_sources=True) | dg.AssetSelection.all_asset_checks(),
            self.time,
            self.cursor,
        )
        self.time += timedelta(minutes=minutes)
        self.cursor = found.cursor
        joints = {key.to_user_string() for key in graph.get_all_asset_keys() if found.get_num_requested(key)}
        checks = {key for key in graph.asset_check_keys if graph.get(key).automation_condition is not None}
        assert len(checks) <= 1
        rest = found.total_requested - sum(found.get_num_requested(key) for key in graph.get_all_asset_keys())
        return joints | {f"{key.asset_key.to_user_string()}:{key.name}" for key in checks if rest}

    def observed(self, source: str, version: str) -> None:
        tags = {"dagster/data_version": version}
        self.instance.report_runless_asset_event(dg.AssetObservation(source, tags=tags))

    def report_materialized(self, *joints: str) -> None:
        """Report materializations of the joints by one run."""

        @dg.multi_asset(specs=[dg.AssetSpec(joint) for joint in joints])
        def make():
            yield from (dg.MaterializeResult(asset_key=joint) for joint in joints)

        assert dg.materialize([make], instance=self.instance).success

    def report_check(self, joint: str, passed: bool) -> None:
        """Report the result of a checks-only run."""

        @dg.asset_check(asset=joint, name="gate", blocking=True)
        def gate() -> dg.AssetCheckResult:
            return dg.AssetCheckResult(passed=passed)

        job = dg.define_asset_job("judge", dg.AssetSelection.checks_for_assets(joint))
        definitions = dg.Definitions(asset_checks=[gate], jobs=[job])
        definitions.resolve_job_def("judge").execute_in_process(instance=self.instance, raise_on_error=False)


def test_a_new_source_version_requests_the_whole_group_and_a_known_one_nothing(folder, instance):
    tick = Ticks(folder({**GROUP, **ruled({"target": 'key:"out"', "condition": "eager"})}), instance)
    assert tick() == {"a", "b", "out"}  # they are missing, and sources need not have been observed
    tick.report_materialized("a", "b", "out")
    assert tick() == set()
    tick.observed("orders", "1")
    assert tick() == {"a", "b", "out"}
    assert tick() == set()
    tick.observed("orders", "1")
    assert tick() == set()
    tick.observed("orders", "2")
    assert tick() == {"a", "b", "out"}


def test_a_version_seen_right_after_a_request_or_while_it_runs_is_not_lost(folder, instance):
    tick = Ticks(folder({**GROUP, **ruled({"target": 'key:"out"', "condition": "eager"})}), instance)
    tick.report_materialized("a", "b", "out")
    tick()
    tick.observed("orders", "1")
    assert tick() == {"a", "b", "out"}
    tick.observed("orders", "2")
    assert tick() == {"a", "b", "out"}
    assert tick() == set()


def test_a_joint_waits_while_an_upstream_check_fails_and_no_request_is_lost(folder, instance):
    tick = Ticks(folder({**TWO_GROUPS, **ruled({"target": 'key:"out"', "condition": "eager"})}), instance)
    tick.report_materialized("mid", "b", "out")
    tick.report_check("mid", True)
    tick()
    tick.report_materialized("mid")
    tick.report_check("mid", False)
    assert tick() == set()
    assert tick() == set()
    tick.report_check("mid", True)
    assert tick() == {"b", "out"}
    assert tick() == set()


def test_a_gated_source_is_checked_with_each_version_and_its_readers_wait_while_it_fails(folder, instance):
    gated = {"sources/orders.yaml": source("orders.csv", "id INT", quality=GATE)}
    tick = Ticks(folder({**GROUP, **gated, **ruled({"target": 'key:"out"', "condition": "eager"})}), instance)
    assert tick() == {"orders:gate", "a", "b", "out"}
    tick.report_materialized("a", "b", "out")
    tick.report_check("orders", True)
    assert tick() == set()
    tick.observed("orders", "1")
    assert tick() == {"orders:gate", "a", "b", "out"}
    tick.report_check("orders", False)
    assert tick() == set()
    tick.observed("countries", "1")
    assert tick() == set()
    tick.report_check("orders", True)
    assert tick() == {"a", "b", "out"}


def test_checks_of_a_gated_source_without_a_reader_that_has_a_rule_have_no_condition(folder):
    gated = {"sources/orders.yaml": source("orders.csv", "id INT", quality=GATE)}
    other = {"joints/c.sql": "-- rivet:eager: true\nSELECT 1 AS id"}
    rule = ruled({"target": 'key:"c"', "condition": "eager"})
    graph = load_definitions(folder({**GROUP, **gated, **other, **rule}).root).resolve_asset_graph()
    (check,) = graph.asset_check_keys
    assert graph.get(check).automation_condition is None


def test_on_cron_requests_at_each_tick_and_waits_for_upstream_joints(folder, instance):
    rule = {"target": 'key:"out"', "condition": "on_cron", "cron_schedule": "0 1 * * *", "timezone": "Europe/Berlin"}
    files = folder({**TWO_GROUPS, **ruled(rule)})
    tick = Ticks(files, instance, datetime(2024, 3, 9, 23, 59, 30, tzinfo=UTC))
    tick.report_materialized("mid", "b", "out")
    tick.report_check("mid", True)
    assert tick() == set()
    assert tick() == set()  # it is 1 o'clock in Berlin, and `mid` was materialized yesterday
    tick.report_materialized("mid")
    tick.report_check("mid", True)
    assert tick() == {"b", "out"}
    assert tick(24 * 60) == set()


def test_on_cron_waits_for_passed_gates_but_not_for_sources(folder, instance):
    rule = {"target": 'key:"out"', "condition": "on_cron", "cron_schedule": "@hourly"}
    gated = {"sources/orders.yaml": source("orders.csv", "id INT", quality=GATE)}
    tick = Ticks(folder({**GROUP, **gated, **ruled(rule)}), instance, START - timedelta(seconds=30))
    tick.report_check("orders", False)
    assert tick() == set()
    assert tick() == set()
    assert tick() == set()
    tick.report_check("orders", True)
    assert tick() == {"a", "b", "out"}
    assert tick() == set()


def test_on_missing_requests_missing_joints_once(folder, instance):
    tick = Ticks(folder({**TWO_GROUPS, **ruled({"target": 'key:"out"', "condition": "on_missing"})}), instance)
    assert tick() == set()  # `mid` is missing as well, and has no rule
    tick.report_materialized("mid")
    assert tick() == set()  # the check has not run
    tick.report_check("mid", True)
    assert tick() == {"b", "out"}
    assert tick() == set()
    tick.report_materialized("mid", "b", "out")
    tick.report_check("mid", True)
    assert tick() == set()


def test_on_code_change_also_requests_readers_of_the_changed_joint(folder, instance):
    files = folder({**GROUP, **ruled({"target": "*", "condition": "on_code_change"})})
    tick = Ticks(files, instance)
    tick.report_materialized("a", "b", "out")
    assert tick() == set()
    tick.observed("orders", "1")
    assert tick() == set()
    files.write({"joints/b.sql": "SELECT id + 2 AS id FROM a"})
    assert tick() == {"b", "out"}
    assert tick() == set()
    files.write({"joints/b.sql": "SELECT id + 2 AS id -- the same\nFROM a"})
    assert tick() == set()


def test_on_code_change_remembers_the_change_while_a_check_fails(folder, instance):
    files = folder({**TWO_GROUPS, **ruled({"target": 'key:"out"', "condition": "on_code_change"})})
    tick = Ticks(files, instance)
    tick.report_materialized("mid", "b", "out")
    tick.report_check("mid", False)
    assert tick() == set()
    files.write({"joints/b.sql": "SELECT id + 2 AS id FROM mid"})
    assert tick() == set()
    assert tick() == set()
    tick.report_check("mid", True)
    assert tick() == {"b", "out"}


def test_an_external_asset_is_waited_for_like_a_joint(folder, instance):
    files = {
        "sources/quoted.yaml": {"type": "source", "catalog": "dagster", "table": "prices"},
        "sinks/out.yaml": sink("out", "quoted"),
        **ruled({"target": "*", "condition": "eager"}),
    }

    @dg.asset
    def prices() -> None: ...

    definitions = dg.Definitions.merge(load_definitions(folder(files).root), dg.Definitions(assets=[prices]))
    first = dg.evaluate_automation_conditions(definitions, instance)
    assert first.total_requested == 0
    assert dg.materialize([prices], instance=instance).success
    second = dg.evaluate_automation_conditions(definitions, instance, cursor=first.cursor)
    assert second.get_num_requested(dg.AssetKey("out")) == 1


def test_only_the_latest_time_partition_is_requested(folder, instance):
    days = "-- rivet:partitions: {type: daily, column: day, start: 2024-03-01}\n"
    files = {
        "sources/orders.yaml": source("orders.csv", "id INT, day DATE"),
        "joints/a.sql": f"{days}SELECT id, day FROM orders",
        "sinks/out.yaml": sink("out", "a", partitions={"type": "daily", "column": "day", "start": "2024-03-01"}),
        **ruled({"target": 'key:"out"', "condition": "eager"}),
    }
    definitions = load_definitions(folder(files).root)
    found = dg.evaluate_automation_conditions(definitions, instance, evaluation_time=START)
    assert {name: found.get_requested_partitions(dg.AssetKey(name)) for name in ("a", "out")} == {
        "a": {"2024-03-09"}, "out": {"2024-03-09"},
    }  # fmt: skip


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("rows", ["id\n1\n", 'id\n""\n'])
def test_a_requested_run_evaluates_the_gate_first(project, instance, rows):
    files = {**GROUP, "sources/orders.yaml": source("orders.csv", "id INT", quality=GATE), "data/orders.csv": rows}
    shop = project({**files, "data/countries.csv": "id\n7\n", **ruled({"target": 'key:"out"', "condition": "eager"})})
    tick = Ticks(shop, instance)
    assert tick() == {"orders:gate", "a", "b", "out"}
    asked = dg.AssetSelection.assets("a", "b", "out") | dg.AssetSelection.checks_for_assets("orders")
    job = dg.Definitions(jobs=[dg.define_asset_job("asked", asked)])
    definitions = dg.Definitions.merge(load_definitions(shop.root), job)
    result = definitions.resolve_job_def("asked").execute_in_process(instance=instance, raise_on_error=False)
    (evaluation,) = result.get_asset_check_evaluations()
    good = rows.startswith("id\n1")
    assert (evaluation.passed, result.success, (shop.root / "lake/out").exists()) == (good, good, good)
    assert tick() == set()
    tick.observed("orders", "1")
    assert tick() == {"orders:gate", "a", "b", "out"}


def conditions(definitions: dg.Definitions) -> dict[str, Any]:
    return {spec.key.to_user_string(): spec.automation_condition for spec in definitions.resolve_all_asset_specs()}


def labels(found: dict[str, Any]) -> dict[str, str | None]:
    return {name: condition and condition.get_label() for name, condition in found.items()}


def test_the_last_rule_of_a_joint_wins_and_joints_before_it_have_their_own(folder):
    rules = ruled(
        {"target": "*", "condition": "on_missing"},
        {"target": 'key:"b"', "condition": "eager"},
        {"target": 'key:"out"', "condition": "on_cron", "cron_schedule": "@daily"},
    )
    found = conditions(load_definitions(folder({**GROUP, **rules}).root))
    assert labels(found) == {
        "orders": None,
        "countries": None,
        "a": "rivet_on_missing",
        "b": "rivet_eager",
        "out": "rivet_on_cron",
    }
    rules = ruled({"target": 'key:"b"', "condition": "eager"})
    found = conditions(load_definitions(folder({**GROUP, **rules}).root))
    assert {name for name, condition in found.items() if condition is not None} == {"a", "b"}


def test_a_condition_does_not_apply_to_other_groups(folder):
    found = conditions(load_definitions(folder({**TWO_GROUPS, **ruled(
        {"target": 'key:"out"', "condition": "eager"},
    )}).root))  # fmt: skip
    assert {name for name, condition in found.items() if condition is not None} == {"b", "out"}


def test_a_translator_can_set_the_same_conditions_and_wins_over_rules(folder):
    class Mine(DagsterRivetTranslator):
        def get_asset_spec(self, joint, project):
            spec = super().get_asset_spec(joint, project)
            given = automation_condition("eager") if joint.name == "out" else None
            return spec.replace_attributes(automation_condition=given)

    in_yaml = conditions(
        load_definitions(folder({**GROUP, **ruled({"target": 'key:"out"', "condition": "eager"})}).root)
    )
    in_python = conditions(load_definitions(folder({**GROUP, **ruled()}).root, translator=Mine()))
    assert in_python == in_yaml
    both = folder({**GROUP, **ruled({"target": "*", "condition": "on_missing"})})
    found = conditions(load_definitions(both.root, translator=Mine()))
    assert labels(found)["out"] == "rivet_eager"
    assert labels(found)["a"] == "rivet_on_missing"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("egaer", {}),
        ("eager", {"cron_schedule": "@daily"}),
        ("eager", {"timezone": "Europe/Berlin"}),
        ("on_cron", {}),
        ("on_cron", {"cron_schedule": "at noon"}),
    ],
)
def test_an_unknown_condition_is_rejected(name, options):
    with pytest.raises(RivetError) as caught:
        automation_condition(name, **options)
    assert caught.value.code == "RVT-104"
