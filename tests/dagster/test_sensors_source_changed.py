"""The sensor `source_changed`."""

import os
import random
from pathlib import Path

import dagster as dg
import pytest
from support.folders import MANIFEST, ProjectFolder, sink, source
from support.sensors import Ticker, sensor_of
from support.torture import some

from rivet_dagster import (
    DagsterRivetTranslator,
    RivetError,
    RivetProject,
    build_source_changed_sensor,
    load_definitions,
)

SENSOR = {"type": "source_changed", "sources": ["a", "b"], "target": 'key:"out"'}


@pytest.fixture
def watched(folder) -> ProjectFolder:
    return folder({
        "data/a.csv": "id\n1\n",
        "data/b.csv": "id\n1\n",
        "sources/a.yaml": source("a.csv", "id INT"),
        "sources/b.yaml": source("b.csv", "id INT"),
        "joints/both.sql": "SELECT id FROM a UNION ALL SELECT id FROM b",
        "sinks/out.yaml": sink("out", "both"),
        "rivet.yaml": {**MANIFEST, "dagster": {"sensors": {"moved": SENSOR}}},
    })  # fmt: skip


@pytest.fixture
def ticker(watched, instance) -> Ticker:
    return Ticker(sensor_of(watched.root, "moved"), instance)


def change(root: Path, name: str, at: int) -> None:
    """Change the data version of a source by the modification time of its file."""
    os.utime(root / f"data/{name}.csv", ns=(at, at))


def test_a_change_of_any_source_is_requested_once_and_the_first_tick_requests_nothing(watched, ticker):
    assert ticker.tick() == []
    assert ticker.skipped == "seen for the first time: a, b"
    assert ticker.tick() == []
    assert ticker.skipped == "no data version has changed"
    change(watched.root, "a", 5)
    assert len(ticker.tick()) == 1
    change(watched.root, "a", 6)
    change(watched.root, "b", 6)
    assert len(ticker.tick()) == 1
    assert ticker.tick() == []


def test_a_return_to_an_earlier_version_is_another_change(watched, ticker):
    change(watched.root, "a", 5)
    ticker.tick()
    for _ in range(2):
        for at in (6, 5):
            change(watched.root, "a", at)
            assert len(ticker.tick()) == 1


def test_a_source_that_cannot_be_read_hides_no_change_of_the_other(watched, ticker):
    """A tick with nothing to request fails, and the cursor still has the last version of the source."""
    ticker.tick()
    away = watched.root / "away.csv"
    (watched.root / "data/a.csv").rename(away)
    with pytest.raises(RivetError, match=r"RVT-403.*a\.csv"):
        ticker.tick()
    change(watched.root, "b", 5)
    assert len(ticker.tick()) == 1
    with pytest.raises(RivetError, match="RVT-403"):
        ticker.tick()
    away.rename(watched.root / "data/a.csv")
    assert ticker.tick() == []
    change(watched.root, "a", 5)
    assert len(ticker.tick()) == 1


def test_an_unreadable_source_at_the_first_tick_does_not_affect_the_first_version_of_another(watched, ticker):
    (watched.root / "data/a.csv").rename(watched.root / "away.csv")
    assert ticker.tick() == []
    assert ticker.skipped == "seen for the first time: b"
    change(watched.root, "b", 5)
    assert len(ticker.tick()) == 1


def test_a_source_added_to_the_list_counts_as_unchanged(watched, ticker):
    project = RivetProject.load(watched.root)
    ticker.sensor = build_source_changed_sensor(project, "moved", ["a"], 'key:"out"')
    ticker.tick()
    ticker.sensor = build_source_changed_sensor(project, "moved", ["a", "b"], 'key:"out"')
    assert ticker.tick() == []
    change(watched.root, "b", 5)
    assert len(ticker.tick()) == 1


def test_a_cursor_of_another_kind_or_no_cursor_at_all_is_a_first_tick(watched, ticker):
    for cursor in ('{"kind":"files","version":"x"}', "what a person typed", "[]"):
        ticker.cursor = cursor
        assert ticker.tick() == []
        assert ticker.skipped == "seen for the first time: a, b"


def test_a_sensor_made_in_python_equals_the_one_declared_in_yaml(watched, ticker, instance):
    built = build_source_changed_sensor(RivetProject.load(watched.root), "moved", ["a", "b"], 'key:"out"')
    results = []
    for sensor in (ticker.sensor, built):
        with dg.build_sensor_context(instance=instance) as context:
            results.append((sensor.name, sensor.description, str(next(iter(sensor.jobs)).selection), sensor(context)))
    assert results[0] == results[1]


@pytest.mark.parametrize("seed", some(range(3), 2))
def test_requests_for_any_history_of_versions_and_ticks_match_the_model(watched, ticker, seed):
    rng = random.Random(seed)
    root = watched.root
    now: dict[str, int | None] = {}
    for name in ("a", "b"):
        change(root, name, 1)
        now[name] = 1
    saved: dict[str, int] = {}
    requested_since: dict[tuple[tuple[str, int | None], ...], str] = {}
    keys: set[str] = set()
    for _ in range(120):
        name, action = rng.choice("ab"), rng.choice(["change", "change", "vanish", "tick", "tick", "lose"])
        path = root / f"data/{name}.csv"
        if action == "change":
            path.write_text("id\n1\n")
            now[name] = rng.randrange(1, 4)
            change(root, name, now[name])
        elif action == "vanish":
            path.unlink(missing_ok=True)
            now[name] = None
        else:
            readable = {one: at for one, at in now.items() if at is not None}
            news = {one: at for one, at in readable.items() if saved.get(one) != at}
            if len(readable) < 2 and not news:
                with pytest.raises(RivetError, match="RVT-403"):
                    ticker.tick(saved=action == "tick")
                continue
            new = ticker.tick(saved=action == "tick")
            seen = tuple(sorted(news.items()))
            if any(one in saved for one in news) and seen not in requested_since:
                (run,) = new
                assert run.run_key not in keys
                keys.add(run.run_key)
                requested_since[seen] = run.run_key
            else:
                assert new == []
            if action == "tick":
                saved, requested_since = {**saved, **readable}, {}
    assert len(keys) > 5


def test_new_versions_are_observed_and_automation_conditions_react(watched, instance):
    """They react to a changed version, neither to the first nor to a repeated one."""

    class Eager(DagsterRivetTranslator):
        def get_asset_spec(self, joint, project):
            spec = super().get_asset_spec(joint, project)
            condition = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
            return spec if joint.type == "source" else spec.replace_attributes(automation_condition=condition)

    definitions = load_definitions(watched.root, translator=Eager())
    ticker = Ticker(next(iter(definitions.sensors)), instance)
    cursor = None

    def requested() -> set[str]:
        nonlocal cursor
        result = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
        cursor = result.cursor
        names = ("both", "out")
        return {name for name in names if result.get_requested_partitions(dg.AssetKey(name))}

    ticker.tick()
    requested()
    assert requested() == set()
    ticker.tick()
    assert requested() == set()
    change(watched.root, "b", 5)
    ticker.tick()
    assert "both" in requested()
    assert requested() == set()
    (seen, first) = instance.fetch_observations(dg.AssetKey("b"), limit=9).records
    assert seen.asset_observation.data_version != first.asset_observation.data_version
    assert len(instance.fetch_observations(dg.AssetKey("a"), limit=9).records) == 1
