"""From a directory to a plan: the one place where files, plugins and the compiler meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rivet_dagster.catalogs.registry import catalog_traits
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.registry import engine_traits
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.project.load import load_project


def compile_directory(
    project_dir: str | Path,
    profile: str | None = None,
    *,
    joints: Sequence[Joint] = (),
    environ: Mapping[str, str] | None = None,
) -> CompiledAssembly:
    """The plan of the project in ``project_dir``; wrong joints stand in its ``errors``.

    ``profile`` defaults to RIVET_PROFILE, else ``default``; ``joints`` are added to those in files. Raises RivetError
    where manifest or profile cannot be used.
    """
    project = load_project(Path(project_dir), profile, environ, joints)
    return compile_project(project, Plugins(catalog_traits(), engine_traits()))
