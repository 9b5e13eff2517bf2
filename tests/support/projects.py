"""Small projects made in memory."""

from __future__ import annotations

from typing import Any

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.registry import traits_of
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.plugins import EngineTraits, Plugins
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.project import Project, PythonFunction

PLUGINS = Plugins(
    {"filesystem": traits_of(FilesystemCatalog)},
    {"pyspark": EngineTraits(frozenset({"master", "max_fusion_depth"}))},
)


def profile(**engine_options: Any) -> Profile:
    """Return a profile with two engines, one of which can use only the workspace."""
    return Profile(
        name="default",
        catalogs=(
            CatalogSpec("lake", "filesystem", {"path": "lake"}),
            CatalogSpec("workspace", "filesystem", {"path": ".rivet/workspace"}),
        ),
        engines=(EngineSpec("spark", "pyspark", ("lake",), None, engine_options), EngineSpec("other", "pyspark")),
        default_engine="spark",
    )


def compile_joints(
    *joints: Joint, functions: dict[str, PythonFunction] | None = None, **engine_options: Any
) -> CompiledAssembly:
    """Compile the joints with ``profile``."""
    return compile_project(Project(profile(**engine_options), joints, functions or {}), PLUGINS)


def source(name: str, **fields: Any) -> Joint:
    """Return a source on a table of the same name."""
    return Joint(**{"name": name, "type": "source", "catalog": "lake", "table": name, **fields})


def sql(name: str, text: str, **fields: Any) -> Joint:
    """Return a SQL joint."""
    return Joint(name=name, type="sql", sql=text, **fields)


def sink(name: str, *upstream: str, **fields: Any) -> Joint:
    """Return a sink on a table of the same name."""
    return Joint(**{"name": name, "type": "sink", "catalog": "lake", "table": name, "upstream": upstream, **fields})


def python(name: str, *parameters: str, **fields: Any) -> tuple[Joint, dict[str, PythonFunction]]:
    """Return a Python joint and its function."""
    joint = Joint(name=name, type="python", function=f"joints.{name}:transform", **fields)
    return joint, {name: PythonFunction(f"joints/{name}.py", "transform", 1, parameters, "tree")}


def groups(assembly: CompiledAssembly) -> dict[str, tuple[str, ...]]:
    """Return the joints of each group."""
    assert assembly.success, assembly.errors
    return {group.name: group.joints for group in assembly.fused_groups}


def reasons(assembly: CompiledAssembly) -> dict[str, str]:
    """Return the reason why each stored joint is stored."""
    return {m.joint: m.reason for m in assembly.materializations}


def codes(assembly: CompiledAssembly) -> list[str]:
    """Return the codes of the errors."""
    return [error.code for error in assembly.errors]
