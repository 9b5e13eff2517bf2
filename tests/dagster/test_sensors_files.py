"""The sensor `files`: each change leads to exactly one run."""

import gc
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from support.folders import MANIFEST, ProjectFolder, sink, source
from support.sensors import Ticker, sensor_of
from support.torture import some

from rivet_dagster import RivetError, RivetProject, build_files_sensor, load_definitions
from rivet_dagster.definitions.sensors import sources as files_sensor
from rivet_dagster.model.inputs import LandedFile

SENSOR = {"type": "files", "source": "orders", "target": '+key:"out"', "minimum_interval_seconds": 45}


def watched(folder: Callable[..., ProjectFolder], table: str = "landing", **options: object) -> ProjectFolder:
    """Write a project whose sensor ``landing`` watches the table."""
    orders = source(table, "id INT", options={"format": "csv", **options})
    files = {
        "sources/orders.yaml": orders,
        "joints/all_orders.sql": "SELECT id FROM orders",
        "sinks/out.yaml": sink("out", "all_orders"),
        "rivet.yaml": {**MANIFEST, "dagster": {"sensors": {"landing": SENSOR}}},
    }
    made = folder(files)
    (made.root / "data/landing").mkdir()
    return made


class Zone:
    """The folder of the files; each write gets another modification time."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "data/landing"
        self._times = iter(range(10**9, 10**18, 1000))

    def put(self, name: str, text: str = "id\n1\n") -> None:
        """Add or change a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        at = next(self._times)
        os.utime(path, ns=(at, at))

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.folder / name).unlink()


@pytest.fixture(params=[False, True], ids=["plain", "landing"])
def zone(folder, instance, request) -> tuple[Zone, Ticker]:
    project = watched(folder, **({"landing": True} if request.param else {}))
    return Zone(project.root), Ticker(sensor_of(project.root, "landing"), instance)


def test_files_present_at_the_first_tick_are_requested_once(zone):
    files, ticker = zone
    assert ticker.tick() == []
    assert ticker.skipped == "no new file among 0"
    files.put("a.csv")
    files.put("deep/b.csv")
    assert len(ticker.tick()) == 1
    assert ticker.tick() == []
    assert ticker.skipped == "no change in 2 files"


def test_changed_files_are_requested_again_and_removed_files_are_not(zone):
    files, ticker = zone
    files.put("a.csv")
    files.put("b.csv")
    ticker.tick()
    files.put("a.csv")
    assert len(ticker.tick()) == 1
    files.put("a.csv", "id\n1\n2\n")
    assert len(ticker.tick()) == 1
    files.remove("a.csv")
    assert ticker.tick() == []
    assert ticker.skipped == "no new file among 1"
    files.remove("b.csv")
    assert ticker.tick() == []
    assert len({run.run_key for run in ticker.runs}) == 3


def test_files_that_engines_ignore_do_not_count(zone):
    files, ticker = zone
    for name in ("_SUCCESS", ".hidden.csv", "_archive/v1/a.csv"):
        files.put(name)
    assert ticker.tick() == []


def test_a_file_that_was_removed_and_added_again_is_new(zone):
    """The listing equals that of an earlier request, so its run key must not be the same."""
    files, ticker = zone
    for _ in range(3):
        (files.folder / "a.csv").write_text("id\n1\n")
        os.utime(files.folder / "a.csv", ns=(5, 5))
        assert len(ticker.tick()) == 1
        files.remove("a.csv")
        assert ticker.tick() == []


def test_a_tick_without_a_saved_cursor_starts_no_second_run_and_loses_no_file(zone):
    files, ticker = zone
    files.put("a.csv")
    assert len(ticker.tick(saved=False)) == 1
    assert ticker.tick(saved=False) == []
    files.put("b.csv")
    assert len(ticker.tick(saved=False)) == 1
    assert ticker.tick() == []
    files.put("c.csv")
    assert len(ticker.tick()) == 1


def test_resetting_the_cursor_requests_another_run_of_the_same_files(zone, instance):
    files, ticker = zone
    files.put("a.csv")
    (first,) = ticker.tick()
    with dg.SensorEvaluationContext(None, last_run_key=first.run_key, instance=instance) as context:
        (again,) = ticker.sensor(context).run_requests
    assert again.run_key != first.run_key


def test_the_cursor_of_another_kind_of_sensor_is_ignored(zone):
    files, ticker = zone
    files.put("a.csv")
    ticker.cursor = '{"kind":"source_changed","last":"","versions":{"orders":"x"}}'
    assert len(ticker.tick()) == 1
    assert ticker.tick() == []


@pytest.mark.parametrize("remembered", [2000, 3])
@pytest.mark.parametrize("seed", some(range(4), 2))
def test_requests_for_any_history_of_files_and_ticks_match_the_model(zone, monkeypatch, remembered, seed):
    """The model has two sets of files: those of the saved cursor, and those requested since."""
    monkeypatch.setattr(files_sensor, "REMEMBERED", remembered)
    files, ticker = zone
    rng = random.Random(seed)
    times: dict[str, int] = {}
    saved: dict[str, int] | None = None
    requested_since: dict[tuple[tuple[str, int], ...], str] = {}
    keys: set[str] = set()
    clock = 0
    for _ in range(120):
        name = f"{rng.randrange(6)}.csv"
        action = rng.choice(["put", "put", "remove", "restore", "tick", "tick", "tick", "lose"])
        if action in ("put", "restore"):
            clock += action == "put"
            (files.folder / name).write_text("id\n1\n")
            # A restored file may have the same modification time as before, or as another file.
            times[name] = clock if action == "put" else rng.randrange(1, clock + 2)
            os.utime(files.folder / name, ns=(times[name], times[name]))
        elif action == "remove" and name in times:
            files.remove(name)
            del times[name]
        elif action in ("tick", "lose"):
            if saved is None:
                wanted = bool(times)
            elif len(saved) <= remembered:
                wanted = bool(times.items() - saved.items())
            else:
                wanted = bool(times) and times != saved
            new = ticker.tick(saved=action == "tick")
            now = tuple(sorted(times.items()))
            if wanted and now not in requested_since:
                (run,) = new
                assert run.run_key not in keys
                keys.add(run.run_key)
                requested_since[now] = run.run_key
            else:
                assert new == []
            if action == "tick":
                saved, requested_since = dict(times), {}
    assert len(keys) > 5


def test_a_source_may_be_a_file_that_does_not_exist_yet(folder, instance):
    project = watched(folder, "landing/orders.csv")
    ticker = Ticker(sensor_of(project.root, "landing"), instance)
    assert ticker.tick() == []
    files = Zone(project.root)
    files.put("orders.csv")
    assert len(ticker.tick()) == 1
    files.put("other.csv")
    assert ticker.tick() == []


@pytest.mark.parametrize("table", ["zone/orders.csv", "zone/*.csv", "zone/days"])
def test_without_the_parent_folder_the_tick_fails_and_the_cursor_stays(folder, instance, table):
    """As with an unmounted folder: its files are not removed, and not new when it is mounted again."""
    project = watched(folder, table)
    zone, away = project.root / "data/zone", project.root / "away"
    ticker = Ticker(sensor_of(project.root, "landing"), instance)
    with pytest.raises(RivetError, match=r"RVT-403.*zone"):
        ticker.tick()
    zone.mkdir()
    assert ticker.tick() == []
    place = project.root / "data" / table.replace("*", "a").replace("days", "days/a.csv")
    place.parent.mkdir(exist_ok=True)
    place.write_text("id\n1\n")
    assert len(ticker.tick()) == 1
    zone.rename(away)
    with pytest.raises(RivetError, match=r"RVT-403.*zone"):
        ticker.tick()
    away.rename(zone)
    assert ticker.tick() == []


def test_observations_have_the_same_data_version_as_the_observation_step(zone, instance):
    files, ticker = zone
    key = dg.AssetKey("orders")
    assert ticker.tick() == []
    assert instance.fetch_observations(key, limit=9).records == []
    definitions = load_definitions(files.folder.parent.parent)
    look = dg.Definitions(jobs=[dg.define_asset_job("look", dg.AssetSelection.assets(key))])
    job = dg.Definitions.merge(definitions, look).resolve_job_def("look")
    for name in ("a.csv", "b.csv"):
        files.put(name)
        ticker.tick()
        seen = instance.fetch_observations(key, limit=9).records[0].asset_observation
        assert job.execute_in_process(instance=instance).success
        observed = instance.fetch_observations(key, limit=9).records[0].asset_observation
        assert seen.data_version is not None
        assert seen.data_version == observed.data_version
    files.remove("b.csv")
    ticker.tick()
    assert instance.fetch_observations(key, limit=9).records[0].asset_observation.data_version != seen.data_version


def test_a_sensor_made_in_python_equals_the_one_declared_in_yaml(folder, instance):
    project = watched(folder)
    declared = sensor_of(project.root, "landing")
    made = build_files_sensor(
        RivetProject.load(project.root), "landing", "orders", '+key:"out"', minimum_interval_seconds=45
    )
    Zone(project.root).put("a.csv")
    results = []
    for sensor in (declared, made):
        assert (sensor.name, sensor.minimum_interval_seconds, sensor.default_status.value) == ("landing", 45, "STOPPED")
        (job,) = sensor.jobs
        with dg.build_sensor_context(instance=instance) as context:
            results.append((str(job.selection), sensor.description, job.name, sensor(context)))
    assert results[0] == results[1]


@pytest.mark.nightly(but=1)
def test_a_tick_lists_each_folder_once_and_the_files_are_released(zone, monkeypatch):
    """Whether there is a change or not, and whatever comes or goes while the folders are listed."""
    files, ticker = zone
    for name in ("a.csv", "deep/b.csv", "deep/c.csv"):
        files.put(name)
    scan, scanned = os.scandir, list[str]()

    def counting(folder):
        scanned.append(Path(folder).name)
        if scanned[-1] == "deep":  # its parent has been listed
            (files.folder / "a.csv").unlink(missing_ok=True)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", counting)
    for requests in (1, 0, 0):  # the file that has gone requests nothing
        scanned.clear()
        assert len(ticker.tick()) == requests
        assert scanned == ["landing", "deep"]
    gc.collect()
    assert not [found for found in gc.get_objects() if isinstance(found, LandedFile) and "deep/b" in found.path]


def test_many_files_need_a_small_cursor_and_a_short_tick(folder, instance):
    project = watched(folder)
    landing = project.root / "data/landing"
    ticker = Ticker(sensor_of(project.root, "landing"), instance)
    sizes = []
    for count in (1_000, 10_000):
        for number in range(count):
            (landing / f"{number}.csv").touch()
        assert len(ticker.tick()) == 1
        began = time.process_time()
        assert ticker.tick() == []
        assert time.process_time() - began < 20
        sizes.append(len(ticker.cursor or ""))
    assert sizes[0] < 10_000
    assert sizes[1] < 200
    assert json.loads(ticker.cursor or "")["kind"] == "files"
