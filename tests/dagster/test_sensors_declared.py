"""Sensors declared in rivet.yaml: what they start, and errors with their lines."""

import time

import dagster as dg
import pytest
from dagster import DagsterRun
from support.folders import MANIFEST, PROFILES, ProjectFolder, sink, source
from support.plugins import install
from support.sensors import sensor_of

from rivet_dagster import (
    CompiledAssembly,
    RivetError,
    RivetProject,
    RivetProjectComponent,
    build_files_sensor,
    build_sweep_sensors,
    compile_directory,
    load_definitions,
)

DAILY = {"type": "daily", "column": "day", "start": "2024-01-01"}
FILES = {
    "data/orders.csv": "id,day\n1,2024-01-01\n",
    "sources/orders.yaml": source(
        "orders.csv", "id INT, day DATE", quality={"assertions": [{"type": "not_null", "columns": ["id"]}]}
    ),
    "sources/far.yaml": {"type": "source", "catalog": "remote", "table": "far"},
    "joints/clean.sql": "SELECT id FROM orders",
    "sinks/out.yaml": sink("out", "clean", "far"),
    "sinks/days.yaml": sink("days", "orders", partitions=DAILY),
    "profiles.yaml": {
        "default": {
            **PROFILES["default"],
            "catalogs": {
                **PROFILES["default"]["catalogs"],
                "remote": {"type": "memory"},
            },
            "engines": [{**PROFILES["default"]["engines"][0], "catalogs": ["raw", "lake", "remote"]}],
        }
    },
}
FOUR = """\
dagster:
  sensors:
    landing: {type: files, source: orders, target: 'key:"out"', minimum_interval_seconds: 20, default_status: RUNNING}
    moved: {type: source_changed, sources: [orders, far], target: '+key:"out"'}
    after: {type: after_success, monitored: 'key:"clean"', target: 'key:"out"'}
    clean_up: {type: sweep}
"""


@pytest.fixture(autouse=True)
def a_catalog_without_files(monkeypatch, tmp_path) -> None:
    """Install the type of the catalog ``remote``."""
    install(monkeypatch, tmp_path / "site", catalogs={"memory": "rivet_dagster.testing.memory:MemoryCatalog"})


def declaring(folder, block: str) -> ProjectFolder:
    """Write the project with a ``dagster:`` block that begins at line 5."""
    manifest = "".join(f"{key}: {value}\n" for key, value in MANIFEST.items())
    return folder({**FILES, "rivet.yaml": manifest + block})


def found_in(root) -> list[tuple[str, int | None, str]]:
    with pytest.raises(RivetError) as caught:
        load_definitions(root)
    assert {one.file for one in caught.value.diagnostics} == {"rivet.yaml"}
    return [(one.code, one.line, one.message) for one in caught.value.diagnostics]


def test_each_sensor_starts_a_job_of_its_target_with_the_checks_of_upstream_sources(folder):
    project = declaring(folder, FOUR)
    definitions = load_definitions(project.root)
    sensors = {sensor.name: sensor for sensor in definitions.sensors}
    assert list(sensors) == ["landing", "moved", "after", "clean_up_failure", "clean_up_canceled"]
    assert [job.name for sensor in sensors.values() for job in sensor.jobs] == [
        "landing", "moved", "after", "sweep", "sweep",
    ]  # fmt: skip
    landing = sensors["landing"]
    assert (landing.default_status, landing.minimum_interval_seconds) == (dg.DefaultSensorStatus.RUNNING, 20)
    assert sensors["moved"].default_status == dg.DefaultSensorStatus.STOPPED
    made = definitions.resolve_job_def("moved").asset_layer
    assert {key.to_user_string() for key in made.selected_asset_keys} == {"clean", "out"}
    assert {str(key.asset_key.to_user_string()) for key in made.asset_graph.asset_check_keys} == {"orders"}


def test_sensors_of_the_plan_survive_json(folder):
    plan = compile_directory(declaring(folder, FOUR).root)
    assert CompiledAssembly.from_json(plan.to_json()).dagster.sensors == plan.dagster.sensors
    assert [sensor.name for sensor in plan.dagster.sensors] == ["landing", "moved", "after", "clean_up"]


def test_sweep_sensors_made_in_python_equal_those_declared_in_yaml(folder):
    project = declaring(folder, FOUR)
    declared = [sensor_of(project.root, f"clean_up_{end}") for end in ("failure", "canceled")]
    made = build_sweep_sensors(RivetProject.load(project.root), "clean_up")
    assert [(one.name, one.description, one.default_status) for one in made] == [
        (one.name, one.description, one.default_status) for one in declared
    ]


def test_wrong_sources_are_compile_errors(folder):
    block = (
        "dagster:\n"
        "  sensors:\n"
        "    a: {type: files, source: order, target: 'key:\"out\"'}\n"
        "    b:\n"
        "      type: source_changed\n"
        "      target: 'key:\"out\"'\n"
        "      sources: [orders, clean, nothing_like_it]\n"
        "    c: {type: files, source: far, target: 'key:\"out\"'}\n"
    )
    errors = compile_directory(declaring(folder, block).root).errors
    assert [(one.code, one.file, one.line) for one in errors] == [
        ("RVT-117", "rivet.yaml", 7),
        ("RVT-117", "rivet.yaml", 11),
        ("RVT-117", "rivet.yaml", 11),
        ("RVT-104", "rivet.yaml", 12),
    ]
    texts = [one.message for one in errors]
    assert texts[0] == "sensor 'a': `source`: there is no source 'order'; did you mean 'orders'?"
    assert "'clean' is no source, it is made here" in texts[1]
    assert "there is no source 'nothing_like_it'; known: far, orders" in texts[2]
    assert texts[3] == (
        "sensor 'c': `source`: the files of 'far' cannot be listed: its type of catalog has no files to list"
    )
    assert "source_changed" in (errors[3].remediation or "")


def test_errors_found_at_different_stages_are_reported_at_once(folder):
    block = (
        "dagster:\n"
        "  schedules:\n"
        "    a: {taget: 'key:\"out\"', cron_schedule: '@daily'}\n"
        "    b: {target: 'key:\"nothing\"', cron_schedule: '@daily'}\n"
        "  sensors:\n"
        "    c: {type: files, source: order, target: 'key:\"nothing\"'}\n"
        "  freshness:\n"
        "    - {target: 'tag:none', time_window: {fail_window: 1h}}\n"
        "  observe:\n"
        "    d: {sources: [order, clean], cron_schedule: '@daily'}\n"
    )
    root = declaring(folder, block).root
    found = [("RVT-103", 7), ("RVT-105", 7), ("RVT-115", 8), ("RVT-115", 10), ("RVT-117", 10), ("RVT-115", 12)]
    found += [("RVT-117", 14)]
    assert sorted((code, line) for code, line, _ in found_in(root)) == sorted(found)
    with pytest.raises(RivetError) as caught:
        RivetProjectComponent(project=root).write_state_to_path(root / "state")
    assert sorted((one.code, one.line) for one in caught.value.diagnostics) == sorted(found)
    plan = compile_directory(root)
    assert not plan.success
    compile_errors = [(one.code, one.line) for one in plan.errors]
    assert compile_errors == [one for one in found if one[0] != "RVT-115"]
    ProjectFolder(
        root, {**FILES, "rivet.yaml": (root / "rivet.yaml").read_text(), "joints/bad.sql": "SELECT 1; SELECT 2"}
    )
    assert {one.code for one in compile_directory(root).errors} == {"RVT-103", "RVT-105", "RVT-117", "RVT-207"}


def test_wrong_targets_and_names_are_reported_together_each_at_its_line(folder):
    block = (
        "dagster:\n"
        "  schedules:\n"
        "    moved: {type: sweep, cron_schedule: '@daily'}\n"
        "  sensors:\n"
        "    a:\n"
        "      type: files\n"
        "      source: orders\n"
        "      target: 'key:\"nothing\"'\n"
        "    b:\n"
        "      type: after_success\n"
        "      monitored: 'key:'\n"
        "      target: 'key:\"orders\"'\n"
        "    c: {type: source_changed, sources: [orders], target: 'key:\"days\"'}\n"
        "    all: {type: files, source: orders, target: 'key:\"out\"'}\n"
        "    moved: {type: files, source: orders, target: 'key:\"out\"'}\n"
        "    d: {type: sweep}\n"
        "    d_failure: {type: files, source: orders, target: 'key:\"out\"'}\n"
    )
    found = sorted(found_in(declaring(folder, block).root), key=lambda one: one[1])
    assert [(code, line) for code, line, _ in found] == [
        ("RVT-115", 12), ("RVT-115", 15), ("RVT-115", 16), ("RVT-119", 17), ("RVT-104", 18), ("RVT-104", 19),
        ("RVT-104", 20),
    ]  # fmt: skip
    texts = [text for _, _, text in found]
    assert "sensor 'a': `target`: 'key:\"nothing\"' selects nothing" in texts[0]
    assert "sensor 'b': `monitored`: 'key:' is no asset selection" in texts[1]
    assert "sensor 'b': `target`: 'key:\"orders\"' selects only orders, which can only be read" in texts[2]
    assert "sensor 'c': `target`: 'key:\"days\"' has partitions" in texts[3]
    assert "sensor 'all': there is a job 'all' already" in texts[4]
    assert "sensor 'moved': there is a schedule or sensor 'moved' already" in texts[5]
    assert "d_failure" in texts[6]


def test_functions_in_python_report_all_errors_at_once(folder):
    project = RivetProject.load(declaring(folder, "").root)
    with pytest.raises(RivetError) as caught:
        build_files_sensor(project, "landing", "fra", 'key:"days"')
    assert [(one.code, one.file) for one in caught.value.diagnostics] == [("RVT-117", None), ("RVT-119", None)]
    with pytest.raises(RivetError, match="cannot be listed"):
        build_files_sensor(project, "landing", "far", 'key:"out"')


def test_a_sensor_made_in_python_can_be_merged_into_the_definitions(folder, instance):
    project = declaring(folder, "")
    sensor = build_files_sensor(RivetProject.load(project.root), "landing", "orders", 'key:"out"')
    definitions = dg.Definitions.merge(load_definitions(project.root), dg.Definitions(sensors=[sensor]))
    keys = definitions.resolve_job_def("landing").asset_layer.selected_asset_keys
    assert {key.to_user_string() for key in keys} == {"out"}


def test_an_external_asset_cannot_be_a_sensors_source(folder):
    files = {"type": "files", "source": "made", "target": "*"}
    project = declaring(folder, "").write({
        "sources/made.yaml": {"type": "source", "catalog": "dagster", "table": "shop/made"},
        "sinks/copy.yaml": sink("copy", "made"),
        "rivet.yaml": {**MANIFEST, "dagster": {"sensors": {"a": files}}},
    })  # fmt: skip
    (found,) = compile_directory(project.root).errors
    assert found.code == "RVT-117"
    assert "'made' is another Dagster asset" in found.message


def test_one_sweep_serves_all_runs_that_ended_before_it(folder, instance):
    """A backfill of thousands of partitions that fails requests one sweep, not thousands."""
    (sensor, _) = build_sweep_sensors(RivetProject.load(declaring(folder, FOUR).root), "clean_up")

    @dg.op
    def fails() -> None:
        raise ValueError

    @dg.job
    def partition() -> None:
        fails()

    def ended(of: str = "shop@here") -> dg.RunStatusSensorContext:
        tags = {".dagster/repository": of}
        result = partition.execute_in_process(instance=instance, raise_on_error=False, tags=tags)
        return dg.build_run_status_sensor_context(
            "clean_up_failure", result.all_events[-1], instance, result.dagster_run
        )

    tags = {".dagster/repository": "shop@here"}
    first, second = ended(), ended()
    request = sensor(first)
    assert request.run_key == first.dagster_run.run_id
    sweep = DagsterRun(job_name="sweep", status=dg.DagsterRunStatus.NOT_STARTED, tags=tags)
    instance.add_run(sweep)
    assert sensor(second) is None
    assert sensor(ended()) is None  # it has not begun
    assert sensor(ended("shop@elsewhere")) is not None  # a sweep of this project serves no other one
    instance.report_run_failed(sweep)
    assert sensor(second).run_key == second.dagster_run.run_id
    done = DagsterRun(job_name="sweep", status=dg.DagsterRunStatus.SUCCESS, tags=tags)
    instance.add_run(done)
    assert sensor(second) is None
    time.sleep(1.1)  # the time at which a run was recorded is one of whole seconds
    later = ended()
    assert sensor(later).run_key == later.dagster_run.run_id
