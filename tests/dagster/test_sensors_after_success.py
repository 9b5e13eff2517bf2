"""The sensor that waits until all monitored assets have been materialized."""

import random
from collections import Counter
from datetime import date, timedelta

import dagster as dg
import pytest
from support.folders import MANIFEST, ProjectFolder, sink, source
from support.sensors import Ticker, sensor_of
from support.torture import some

from rivet_dagster import RivetError, RivetProject, build_after_success_sensor, load_definitions
from rivet_dagster.definitions.sensors import after_success, requests

SENSOR = {"type": "after_success", "monitored": 'key:"left" or key:"right"', "target": 'key:"out"'}
DAILY = {"type": "daily", "column": "day", "start": "2024-01-01", "end": "2024-02-01"}


def project_with(folder, partitions=None, others=None, **sensor) -> ProjectFolder:
    """Write two joints and a table made from them, all with the partitions, and a fourth joint with ``others``."""
    own = {} if partitions is None else {"partitions": partitions}
    joint = {"type": "sql", "eager": True, "sql": "SELECT id, day FROM events", **own}
    return folder({
        "data/events.csv": "id,day\n1,2024-01-01\n",
        "sources/events.yaml": source("events.csv", "id INT, day DATE"),
        "joints/left.yaml": joint,
        "joints/right.yaml": joint,
        "joints/both.yaml": {"type": "sql", "sql": "SELECT * FROM left UNION ALL SELECT * FROM right", **own},
        "sinks/out.yaml": sink("out", "both", **own),
        "sinks/other.yaml": sink("other", "left", **({} if others is None else {"partitions": others})),
        "rivet.yaml": {**MANIFEST, "dagster": {"sensors": {"after": {**SENSOR, **sensor}}}},
    })  # fmt: skip


def materialize(instance: dg.DagsterInstance, name: str, partition: str | None = None) -> None:
    instance.report_runless_asset_event(dg.AssetMaterialization(name, partition=partition))


@pytest.fixture
def ticker(folder, instance) -> Ticker:
    return Ticker(sensor_of(project_with(folder).root, "after"), instance)


def test_all_monitored_assets_lead_to_one_request_in_any_order(ticker, instance):
    assert ticker.tick() == []
    assert ticker.skipped == "not materialized since: left, right"
    materialize(instance, "right")
    assert ticker.tick() == []
    assert ticker.skipped == "not materialized since: left"
    materialize(instance, "right")
    materialize(instance, "left")
    assert len(ticker.tick()) == 1
    assert ticker.tick() == []
    materialize(instance, "left")
    assert ticker.tick() == []
    materialize(instance, "right")
    assert len(ticker.tick()) == 1


def test_before_the_first_request_all_earlier_materializations_count(ticker, instance):
    materialize(instance, "left")
    materialize(instance, "right")
    assert len(ticker.tick()) == 1


def test_materializations_of_other_assets_do_not_count(ticker, instance):
    materialize(instance, "left")
    materialize(instance, "other")
    materialize(instance, "out")
    assert ticker.tick() == []


def test_events_around_a_tick_without_a_saved_cursor_are_neither_lost_nor_requested_twice(ticker, instance):
    materialize(instance, "left")
    materialize(instance, "right")
    assert len(ticker.tick(saved=False)) == 1
    assert ticker.tick() == []
    materialize(instance, "left")
    materialize(instance, "right")
    assert len(ticker.tick()) == 1


def test_each_partition_is_waited_for_and_requested_separately(folder, instance):
    ticker = Ticker(sensor_of(project_with(folder, DAILY).root, "after"), instance)
    for name in ("left", "right"):
        materialize(instance, name, "2024-01-01")
    assert ticker.tick() == []  # from the first tick on
    materialize(instance, "left", "2024-01-02")
    materialize(instance, "right", "2024-01-03")
    assert ticker.tick() == []
    assert ticker.skipped == "no partition has all: 2 have some"
    materialize(instance, "left", "2024-01-03")
    assert [run.partition_key for run in ticker.tick()] == ["2024-01-03"]
    materialize(instance, "right", "2024-01-02")
    materialize(instance, "left", "2024-01-01")
    materialize(instance, "right", "2024-01-01")
    materialize(instance, "left")  # without a partition
    materialize(instance, "right")
    assert [run.partition_key for run in ticker.tick()] == ["2024-01-01", "2024-01-02"]
    assert ticker.tick() == []


def test_a_partition_that_no_longer_exists_is_not_requested(folder, instance):
    project = project_with(folder, DAILY)
    ticker = Ticker(sensor_of(project.root, "after"), instance)
    ticker.tick()
    materialize(instance, "left", "2024-01-30")
    ticker.tick()
    shorter = {**DAILY, "end": "2024-01-20"}
    ticker.sensor = sensor_of(project_with(folder, shorter).root, "after")
    for partition in ("2024-01-30", "2024-01-19"):
        materialize(instance, "left", partition)
        materialize(instance, "right", partition)
    assert [run.partition_key for run in ticker.tick()] == ["2024-01-19"]


def test_any_partition_counts_for_a_target_without_partitions(folder, instance):
    project = project_with(folder, DAILY, target='key:"other"')
    ticker = Ticker(sensor_of(project.root, "after"), instance)
    materialize(instance, "left", "2024-01-02")
    materialize(instance, "right", "2024-01-03")
    (run,) = ticker.tick()
    assert run.partition_key is None


@pytest.mark.parametrize("seconds", [-1.0, 20.0])
def test_a_long_backfill_is_read_page_by_page(folder, instance, monkeypatch, seconds):
    """As many pages in a tick as there is time for, at least one."""
    monkeypatch.setattr(after_success, "PAGE", 5)
    monkeypatch.setattr(after_success, "SECONDS", seconds)
    monkeypatch.setattr(requests, "PLAIN", 100)
    ticker = Ticker(sensor_of(project_with(folder, DAILY).root, "after"), instance)
    ticker.tick()
    days = [f"2024-01-{day:02}" for day in range(1, 13)]
    for name in ("left", "right"):
        for day in days:
            materialize(instance, name, day)
    found = [[run.partition_key for run in ticker.tick()] for _ in range(4)]
    assert found == ([days[:5], days[5:10], days[10:], []] if seconds < 0 else [days, [], [], []])


def test_a_long_cursor_is_compressed(folder, instance):
    ticker = Ticker(sensor_of(project_with(folder, {**DAILY, "end": "2030-01-01"}).root, "after"), instance)
    ticker.tick()
    days = [str(date(2024, 1, 1) + timedelta(days=number)) for number in range(500)]
    for day in days:
        materialize(instance, "left", day)
    assert ticker.tick() == []
    assert len(ticker.cursor) < 6_000
    materialize(instance, "right", days[7])
    assert [run.partition_key for run in ticker.tick()] == [days[7]]


@pytest.mark.parametrize("partitions", [None, DAILY])
@pytest.mark.parametrize("seed", some(range(3), 2))
def test_requests_for_any_history_match_the_model(folder, instance, partitions, seed):
    rng = random.Random(seed)
    ticker = Ticker(sensor_of(project_with(folder, partitions).root, "after"), instance)
    days = [f"2024-01-0{day}" for day in range(1, 4)] if partitions else [None]
    ticker.tick()
    fresh: dict[str | None, Counter[str]] = {day: Counter() for day in days}
    requested: dict[str | None, dict[str, int]] = {}
    runs = 0
    for _ in range(150):
        action, day = rng.choice(["left", "right", "tick", "lose"]), rng.choice(days)
        if action in ("left", "right"):
            materialize(instance, action, day)
            fresh[day][action] += 1
            continue
        ready = {day: dict(seen) for day, seen in fresh.items() if len(seen) == 2}
        expected = {day for day, seen in ready.items() if requested.get(day) != seen}
        new = ticker.tick(saved=action == "tick")
        assert {run.partition_key for run in new} == expected
        runs += len(new)
        requested |= ready
        if action == "tick":
            for day in ready:
                fresh[day] = Counter()
            requested = {}
    assert len({run.run_key for run in ticker.runs}) == runs > 10


def test_a_sensor_cannot_monitor_its_own_target(folder):
    project = project_with(folder, target='+key:"out"')
    with pytest.raises(RivetError) as caught:
        load_definitions(project.root)
    (found,) = caught.value.diagnostics
    assert (found.code, found.file) == ("RVT-120", "rivet.yaml")
    assert "sensor 'after': `target`: it makes left, right, which is monitored" in found.message
    lines = (project.root / "rivet.yaml").read_text().splitlines()
    assert "target" in lines[found.line - 1]


@pytest.mark.parametrize(
    ("partitions", "others", "words"),
    [
        (None, DAILY, "'left', which is monitored, none"),
        ({**DAILY, "start": "2024-01-02"}, DAILY, "those of 'left', which is monitored, daily"),
    ],
)
def test_a_target_needs_the_partitions_of_the_monitored_assets(folder, partitions, others, words):
    project = project_with(folder, partitions, others, target='key:"other"')
    with pytest.raises(RivetError) as caught:
        load_definitions(project.root)
    (found,) = caught.value.diagnostics
    assert found.code == "RVT-119"
    assert words in found.message


def test_a_sensor_made_in_python_equals_the_one_declared_in_yaml(folder, instance):
    project = project_with(folder)
    declared = sensor_of(project.root, "after")
    built = build_after_success_sensor(RivetProject.load(project.root), "after", SENSOR["monitored"], SENSOR["target"])
    materialize(instance, "left")
    materialize(instance, "right")
    results = []
    for sensor in (declared, built):
        with dg.build_sensor_context(instance=instance) as context:
            results.append((sensor.name, str(next(iter(sensor.jobs)).selection), sensor(context)))
    assert results[0] == results[1]
