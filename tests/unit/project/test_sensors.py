"""The sensors of rivet.yaml, and every error with code and line."""

import pytest

from rivet_dagster.errors import RivetError
from rivet_dagster.model.automation import AfterSuccessSensor, FilesSensor, Sensors, SourceChangedSensor, SweepSensor
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.project.load import load_project

from .conftest import MANIFEST, Load, Write

HEAD = MANIFEST + "dagster:\n  sensors:\n"
"""A manifest in which the sensors begin at line 7."""

FOUR = """\
    landing: {type: files, source: orders, target: '*', minimum_interval_seconds: 30}
    moved:
      type: source_changed
      sources: [orders, items]
      target: 'group:marts'
      default_status: RUNNING
    after: {type: after_success, monitored: 'key:a', target: 'key:b'}
    clean_up: {type: sweep}
"""


def test_the_four_kinds_of_sensors(load: Load) -> None:
    found = load({"rivet.yaml": HEAD + FOUR}).dagster.sensors
    assert [sensor.name for sensor in found] == ["landing", "moved", "after", "clean_up"]
    landing, moved, after, clean_up = found
    assert landing == FilesSensor(
        name="landing", source="orders", target="*", minimum_interval_seconds=30, origin=landing.origin
    )
    assert moved == SourceChangedSensor(
        name="moved",
        sources=("orders", "items"),
        target="group:marts",
        default_status="RUNNING",
        origin=Origin("rivet.yaml", 9, {"type": 9, "sources": 10, "target": 11, "default_status": 12}),
    )
    assert after == AfterSuccessSensor(name="after", monitored="key:a", target="key:b", origin=after.origin)
    assert clean_up == SweepSensor(name="clean_up", origin=clean_up.origin)
    assert found == Sensors((landing,), (moved,), (after,), (clean_up,))
    assert load({}).dagster.sensors == Sensors()


def test_a_single_source_becomes_a_list(load: Load) -> None:
    text = HEAD + "    a: {type: source_changed, sources: orders, target: '*'}\n"
    assert load({"rivet.yaml": text}).dagster.sensors.source_changed[0].sources == ("orders",)


@pytest.mark.parametrize(
    ("sensor", "code", "words"),
    [
        ("{type: fils, source: a, target: b}", "RVT-104", "there is no type 'fils'; did you mean 'files'?"),
        ("{type: 1}", "RVT-104", "`type` must be a text, not a number"),
        ("{source: a, target: b}", "RVT-105", "sensor 'a': `type` is missing"),
        ("{type: files, target: b}", "RVT-105", "`source` is missing"),
        ("{type: files, source: a}", "RVT-105", "`target` is missing"),
        ("{type: files, source: a, target: }", "RVT-105", "`target` is missing"),
        ("{type: files, source: [a], target: b}", "RVT-104", "`source` must be a text, not a list"),
        ("{type: files, source: a, target: b, sources: [a]}", "RVT-103", "'sources'; did you mean 'source'"),
        ("{type: source_changed, sources: [], target: b}", "RVT-104", "`sources` must name at least one source"),
        ("{type: source_changed, sources: [a, a], target: b}", "RVT-104", "the same text more than once"),
        ("{type: source_changed, target: b}", "RVT-105", "`sources` is missing"),
        ("{type: after_success, target: b}", "RVT-105", "`monitored` is missing"),
        ("{type: after_success, monitored: a, target: b, source: c}", "RVT-103", "unknown key 'source'"),
        ("{type: files, source: a, target: b, default_status: on}", "RVT-104", "must be RUNNING or STOPPED"),
        ("{type: files, source: a, target: b, minimum_interval_seconds: 1.5}", "RVT-104", "a whole number"),
        ("[files]", "RVT-104", "sensor 'a': must be a mapping, not a list"),
    ],
)
def test_wrong_sensors(write: Write, sensor: str, code: str, words: str) -> None:
    with pytest.raises(RivetError) as caught:
        load_project(write({"rivet.yaml": f"{HEAD}    a: {sensor}\n"}), None, {})
    (found,) = caught.value.diagnostics
    assert (found.code, found.file, found.line) == (code, "rivet.yaml", 7)
    assert words in found.message


def test_all_errors_are_reported_at_once_each_at_its_line(write: Write) -> None:
    text = (
        HEAD
        + "    a:\n      type: files\n      sorce: x\n      target: 1\n    b:\n      type: sweep\n      target: y\n"
    )
    with pytest.raises(RivetError) as caught:
        load_project(write({"rivet.yaml": text}), None, {})
    found = sorted((one.code, one.line or 0) for one in caught.value.diagnostics)
    assert found == [("RVT-103", 9), ("RVT-103", 13), ("RVT-104", 10), ("RVT-105", 8)]
