"""Sources that sensors may watch, checked by the compiler."""

import pytest
from support.projects import PLUGINS, profile, sink, source

from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.model.automation import FilesSensor, Sensors, SourceChangedSensor
from rivet_dagster.model.plugins import CatalogTraits, Plugins
from rivet_dagster.model.project import DagsterSettings, Project
from rivet_dagster.model.text_lines import Origin

ORIGIN = Origin("rivet.yaml", 1, {"source": 2, "sources": 3, "target": 4})


def errors(sensors: Sensors, plugins: Plugins = PLUGINS) -> list[tuple[str, int | None, str]]:
    joints = (source("orders"), sink("out", "orders"))
    plan = compile_project(Project(profile(), joints, dagster=DagsterSettings(sensors=sensors)), plugins)
    return [(error.code, error.line, error.message) for error in plan.errors]


def files(name: str) -> Sensors:
    return Sensors(files=(FilesSensor(name="landing", source=name, target="*", origin=ORIGIN),))


def versions(*names: str) -> Sensors:
    return Sensors(source_changed=(SourceChangedSensor(name="moved", sources=names, target="*", origin=ORIGIN),))


@pytest.mark.parametrize("sensors", [files("orders"), versions("orders"), Sensors()])
def test_sensors_watch_sources(sensors):
    assert errors(sensors) == []


def test_sensors_do_not_watch_other_joints_or_unknown_names():
    assert errors(files("order")) == [
        ("RVT-117", 2, "sensor 'landing': `source`: there is no source 'order'; did you mean 'orders'?")
    ]
    (found,) = errors(versions("orders", "out"))
    assert found[:2] == ("RVT-117", 3)
    assert "'out' is no source, it is made here" in found[2]


def test_a_catalog_without_listsfiles_has_no_files_sensor():
    silent = CatalogTraits(PLUGINS.catalogs["filesystem"].strategies, frozenset({"path"}))
    plugins = Plugins({"filesystem": silent}, PLUGINS.engines)
    assert errors(versions("orders"), plugins) == []
    assert errors(files("orders"), plugins) == [
        (
            "RVT-104",
            2,
            "sensor 'landing': `source`: the files of 'orders' cannot be listed: its type of catalog has no files to "
            "list",
        )
    ]
