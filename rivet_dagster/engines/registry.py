"""The installed types of engine."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rivet_dagster.engines.contract import Engine
from rivet_dagster.entry_points import ENGINES, ByType, plugin_class
from rivet_dagster.model.plugins import EngineTraits
from rivet_dagster.model.profile import EngineSpec, expand_variables
from rivet_dagster.model.session_needs import SessionNeeds

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def engine_class(type_: str) -> type[Engine]:
    """Return the class of a type of engine. Raises RVT-109.

    >>> engine_class("pyspark").__name__
    'PySparkEngine'
    """
    return cast("type[Engine]", plugin_class(ENGINES, type_, Engine))


def open_engine(
    spec: EngineSpec,
    root: Path,
    environ: Mapping[str, str],
    connect: Callable[[], Any] | None = None,
    check_interrupt: Callable[[], None] | None = None,
    needs: Sequence[SessionNeeds] = (),
) -> Engine:
    """Return the engine that a profile declares for the project in ``root``, ``${VAR}`` expanded from ``environ``.

    Its paths start at ``root``. Raises RVT-103, RVT-104, RVT-105, RVT-107, RVT-109, RVT-126.
    """
    class_ = engine_class(spec.type)
    options = expand_variables(spec.options, environ)
    paths = {key: _absolute(options[key], root) for key in class_.path_options & options.keys()}
    engine = class_(replace(spec, options=options | paths), connect, check_interrupt, needs)
    engine.root = root
    return engine


def concurrency_limit(spec: EngineSpec) -> int:
    """Return how many groups may run on an engine at once, by the profile or else by its plugin. Raises RVT-109.

    >>> concurrency_limit(EngineSpec("spark", "pyspark"))
    1
    """
    return spec.concurrency_limit or engine_class(spec.type).default_concurrency


def engine_traits() -> Mapping[str, EngineTraits]:
    """Return what the compiler needs to know about each installed type of engine."""
    return ByType(ENGINES, lambda type_: _traits(engine_class(type_)))


def _traits(class_: type[Engine]) -> EngineTraits:
    return EngineTraits(
        class_.options,
        class_.check,
        class_.reads,
        class_.writes,
        class_.dialect,
        class_.separates_errors,
        class_.other_options,
        class_.wrong_settings,
        class_.sql_support,
    )


def _absolute(path: Any, root: Path) -> Any:
    """Return a path, or each of a list, as an absolute one; a URI is returned as it is."""
    if isinstance(path, list | tuple):
        return [_absolute(part, root) for part in path]
    if not isinstance(path, str) or _SCHEME.match(path):
        return path
    return os.path.abspath(root / Path(path).expanduser())
