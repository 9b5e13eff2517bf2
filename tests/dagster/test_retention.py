"""Stored intermediate results that are removed after their last reader has read them."""

import dagster as dg
import pytest
from support.folders import WORKSPACE, ProjectFolder, sink

from rivet_dagster import load_definitions

FILES = {
    "joints/base.sql": "-- rivet:retention: run\n-- rivet:eager: true\nSELECT id FROM range(4)",
    "sinks/one.yaml": sink("one", "base"),
    "sinks/two.yaml": sink("two", "base"),
}


@pytest.fixture
def folder(project) -> ProjectFolder:
    return project(FILES)


def run(folder, instance, *names: str, **options):
    selection = dg.AssetSelection.assets(*names) if names else dg.AssetSelection.all()
    jobs = dg.Definitions(jobs=[dg.define_asset_job("selected", selection)])
    definitions = dg.Definitions.merge(load_definitions(folder.root), jobs)
    return definitions.resolve_job_def("selected").execute_in_process(instance=instance, **options)


def test_rows_are_removed_after_the_last_reader(folder, instance):
    assert run(folder, instance).success
    assert len(folder.rows("one")) == len(folder.rows("two")) == 4
    assert folder.versions("base", WORKSPACE) == []
    assert not (folder.root / WORKSPACE / "base").exists()


def test_rows_are_not_removed_before_all_readers_have_run(folder, instance):
    run(folder, instance, "base", "one")
    assert len(folder.rows("base", WORKSPACE)) == 4
    run(folder, instance, "two")
    assert folder.versions("base", WORKSPACE) == []


def test_rows_are_not_removed_if_a_reader_fails(folder, instance):
    folder.write({"sinks/two.yaml": sink("two", "base", assertions=[{"type": "row_count", "min": 9}])})
    assert not run(folder, instance, raise_on_error=False).success
    assert len(folder.rows("base", WORKSPACE)) == 4


def test_reading_removed_rows_fails_with_the_reason(folder, instance):
    run(folder, instance)
    result = run(folder, instance, "two", raise_on_error=False)
    (event,) = result.get_step_failure_events()
    assert "RVT-401" in event.step_failure_data.error_display_string
    assert "evicted after its last reader" in event.step_failure_data.error_display_string
    assert len(folder.rows("two")) == 4


@pytest.mark.nightly
def test_a_second_run_computes_the_rows_again(folder, instance):
    run(folder, instance)
    folder.write({"joints/base.sql": FILES["joints/base.sql"].replace("4", "6")})
    assert run(folder, instance).success
    assert len(folder.rows("two")) == 6
    assert folder.versions("base", WORKSPACE) == []


def test_without_the_option_rows_are_not_removed(folder, instance):
    folder.write({"joints/base.sql": "-- rivet:eager: true\nSELECT id FROM range(4)"})
    run(folder, instance)
    assert len(folder.rows("base", WORKSPACE)) == 4
