"""From a directory to a plan: the one place where files, plugins and the compiler meet."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rivet_dagster.catalogs.introspection import introspection, last_told
from rivet_dagster.catalogs.registry import catalog_traits
from rivet_dagster.catalogs.resolved_locations import resolved_locations
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.registry import engine_traits
from rivet_dagster.errors import RivetError
from rivet_dagster.model.introspection import Introspection
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.project.cache_file import read_cache, write_cache
from rivet_dagster.project.load import read_project


def compile_directory(
    project_dir: str | Path,
    profile: str | None = None,
    *,
    joints: Sequence[Joint] = (),
    environ: Mapping[str, str] | None = None,
    introspect: bool = False,
    recall: bool = False,
) -> CompiledAssembly:
    """The plan of the project in ``project_dir``; wrong joints stand in its ``errors``.

    ``profile`` defaults to RIVET_PROFILE, else ``default``; ``joints`` are added to those in files; with ``introspect``
    the catalogs are asked for the columns of sources; with ``recall`` those of sources that no catalog tells now are
    what it told when it was last asked, and what is then wrong with a column is a warning: the table may have changed.
    Raises RivetError where manifest or profile cannot be used, but for the ``dagster:`` block, whose errors stand in
    the plan with those of the joints, and RVT-599 in place of any other exception.

    What files and queries say is remembered in ``.rivet/cache``, so that next time only changed ones are read closely.
    """
    root = Path(project_dir)
    with without_collector(), _defects():
        cache = read_cache(root)
        project = read_project(root, profile, environ, joints, cache)
        environ = os.environ if environ is None else environ
        told = introspection(project, root, environ, cache) if introspect else Introspection()
        earlier = last_told(project, cache)  # always, so that it stays in the cache
        if recall:
            told = told.with_earlier(earlier)
        places = resolved_locations(project, root, environ)
        plan = compile_project(project, Plugins(catalog_traits(), engine_traits()), cache, told, places)
        write_cache(root, cache)
    return plan


@contextmanager
def _defects() -> Iterator[None]:
    """Raise an exception that is no RivetError as one: who loads definitions shows nothing else in a readable way."""
    try:
        yield
    except RivetError:
        raise
    except Exception as error:
        raise RivetError("RVT-599", f"{type(error).__name__}: {error}") from error


@contextmanager
def without_collector() -> Iterator[None]:
    """Plans and definitions only grow while they are made: to look through them for garbage takes a third of the time.

    What is there at the end counts as old, so that it is not looked through at once, but when old objects next are.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.unfreeze()
            gc.enable()
