"""The engine that a command is told to use for all joints: one of the profile, or Sail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rivet_dagster.engines.pyspark.config import SAIL, remote_of
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.profile import EngineSpec, Profile
from rivet_dagster.model.project import Project

_SPARK = "pyspark"
_OF_RESULTS = "spark.sql."
_WITHOUT_MEANING = tuple(
    f"spark.sql.{name}"
    for name in """
    adaptive. autoBroadcastJoinThreshold broadcastTimeout catalog. catalogImplementation codegen. extensions files.
    inMemoryColumnarStorage. parquet.compression. parquet.outputTimestampType shuffle. sources.parallelPartition
    statistics. streaming. ui. variable.substitute warehouse. optimizer. execution.arrow. hive. iceberg.
    """.split()
)
"""Beginnings of settings that no row depends on: where they are left out, results are the same."""


def on_one_engine(project: Project, name: str) -> Project:
    """Return the project with all joints on the engine of that name, or on Sail for ``sail``. Raises RVT-308."""
    profile = project.profile
    spec = profile.engine(name)
    if spec is None and name != SAIL:
        known = nearest(name, [SAIL, *(engine.name for engine in profile.engines)])
        raise RivetError("RVT-308", f"the profile '{profile.name}' has no engine '{name}'{known}")
    spec = spec or _sail(profile)
    return replace(
        project,
        profile=replace(profile, engines=(spec,), default_engine=spec.name),
        joints=tuple(replace(joint, engine=spec.name) for joint in project.joints),
    )


def _sail(profile: Profile) -> EngineSpec:
    """Return Sail with the settings of the default engine that results depend on, and all catalogs within reach."""
    usual = profile.engine(profile.default_engine or "") or next(iter(profile.engines), None)
    options: Mapping[str, Any] = usual.options if usual is not None and usual.type == _SPARK else {}
    if remote_of(options) == SAIL:
        return replace(usual, catalogs=_all(profile)) if usual is not None else EngineSpec(SAIL, _SPARK)
    config = options.get("config")
    settings = {
        key: value
        for key, value in (config.items() if isinstance(config, Mapping) else ())
        if key.startswith(_OF_RESULTS) and not key.startswith(_WITHOUT_MEANING)
    }
    return EngineSpec(SAIL, _SPARK, _all(profile), options={"remote": SAIL, "config": settings})


def _all(profile: Profile) -> tuple[str, ...]:
    return tuple(spec.name for spec in profile.catalogs)
