"""Sources that sensors may watch, and joints that exposures may depend on, checked by the compiler."""

import pytest
from support.projects import PLUGINS, profile, sink, source

from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.model.automation import FilesSensor, Sensors, SourceChangedSensor
from rivet_dagster.model.plugins import CatalogTraits, Plugins
from rivet_dagster.model.project import DagsterSettings, Exposure, Project
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


def test_exposures_depend_on_joints():
    """Each unknown name is told with the nearest one; the asset key of an exposure is its own."""

    def found(name, *depends_on):
        exposure = Exposure(name=name, depends_on=depends_on, origin=Origin("rivet.yaml", 1, {"depends_on": 7}))
        settings = DagsterSettings(exposures=(exposure,))
        plan = compile_project(Project(profile(), (source("orders"), sink("out", "orders")), dagster=settings), PLUGINS)
        return [(error.code, error.file, error.line, error.message) for error in plan.errors]

    assert found("board", "orders", "out") == []
    subject = "exposure 'board': `depends_on`: there is no joint"
    assert found("board", "order", "out", "nothing") == [
        ("RVT-306", "rivet.yaml", 7, f"{subject} 'nothing'; known: orders, out"),
        ("RVT-306", "rivet.yaml", 7, f"{subject} 'order'; did you mean 'orders'?"),
    ]
    ((code, _, line, message),) = found("out", "orders")
    assert (code, line) == ("RVT-104", 1)
    assert "there is a joint of that name" in message
