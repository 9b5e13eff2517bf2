"""SQL pipelines on Spark, declared as joints, compiled into one plan, run and gated by Dagster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivet_dagster.version import __version__ as __version__

if TYPE_CHECKING:
    from rivet_dagster.compiler.plan import CompiledAssembly
    from rivet_dagster.definitions.assets.asset_selection import build_rivet_asset_selection
    from rivet_dagster.definitions.assets.groups import RivetGroupRun
    from rivet_dagster.definitions.assets.rivet_assets import build_rivet_asset_specs, rivet_assets
    from rivet_dagster.definitions.automation import automation_condition
    from rivet_dagster.definitions.component import RivetProjectComponent
    from rivet_dagster.definitions.load import load_definitions
    from rivet_dagster.definitions.project import RivetProject
    from rivet_dagster.definitions.resources.io_manager import rivet_resources
    from rivet_dagster.definitions.resources.rivet_executor import rivet_executor
    from rivet_dagster.definitions.schedules import build_observation_schedule, build_schedule_from_rivet_selection
    from rivet_dagster.definitions.sensors.after_success import build_after_success_sensor
    from rivet_dagster.definitions.sensors.sources import build_files_sensor, build_source_changed_sensor
    from rivet_dagster.definitions.sensors.sweep import build_sweep_sensors
    from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator, TranslationContext
    from rivet_dagster.errors import RivetError
    from rivet_dagster.execution.reading.refs import MaterializedRef
    from rivet_dagster.loading import compile_directory
    from rivet_dagster.model.joint import Joint

_HOMES = {
    "CompiledAssembly": "rivet_dagster.compiler.plan",
    "DagsterRivetTranslator": "rivet_dagster.definitions.specs.translator",
    "Joint": "rivet_dagster.model.joint",
    "MaterializedRef": "rivet_dagster.execution.reading.refs",
    "RivetError": "rivet_dagster.errors",
    "RivetGroupRun": "rivet_dagster.definitions.assets.groups",
    "RivetProject": "rivet_dagster.definitions.project",
    "RivetProjectComponent": "rivet_dagster.definitions.component",
    "TranslationContext": "rivet_dagster.definitions.specs.translator",
    "automation_condition": "rivet_dagster.definitions.automation",
    "build_after_success_sensor": "rivet_dagster.definitions.sensors.after_success",
    "build_files_sensor": "rivet_dagster.definitions.sensors.sources",
    "build_observation_schedule": "rivet_dagster.definitions.schedules",
    "build_rivet_asset_selection": "rivet_dagster.definitions.assets.asset_selection",
    "build_rivet_asset_specs": "rivet_dagster.definitions.assets.rivet_assets",
    "build_schedule_from_rivet_selection": "rivet_dagster.definitions.schedules",
    "build_source_changed_sensor": "rivet_dagster.definitions.sensors.sources",
    "build_sweep_sensors": "rivet_dagster.definitions.sensors.sweep",
    "compile_directory": "rivet_dagster.loading",
    "load_definitions": "rivet_dagster.definitions.load",
    "rivet_assets": "rivet_dagster.definitions.assets.rivet_assets",
    "rivet_executor": "rivet_dagster.definitions.resources.rivet_executor",
    "rivet_resources": "rivet_dagster.definitions.resources.io_manager",
}

__all__ = [
    "CompiledAssembly",
    "DagsterRivetTranslator",
    "Joint",
    "MaterializedRef",
    "RivetError",
    "RivetGroupRun",
    "RivetProject",
    "RivetProjectComponent",
    "TranslationContext",
    "automation_condition",
    "build_after_success_sensor",
    "build_files_sensor",
    "build_observation_schedule",
    "build_rivet_asset_selection",
    "build_rivet_asset_specs",
    "build_schedule_from_rivet_selection",
    "build_source_changed_sensor",
    "build_sweep_sensors",
    "compile_directory",
    "load_definitions",
    "rivet_assets",
    "rivet_executor",
    "rivet_resources",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use: the bare import needs neither dagster nor pyspark nor sqlglot.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    # The dg command, when it looks for components, reads every name listed here.
    return sorted({*globals(), *__all__})
