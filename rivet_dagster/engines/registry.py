"""The installed types of engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rivet_dagster.engines.contract import Engine
from rivet_dagster.entry_points import ENGINES, ByType, expand_variables, plugin_class
from rivet_dagster.errors import RivetError
from rivet_dagster.model.plugins import EngineTraits
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.paths import absolute_paths


def engine_class(type_: str) -> type[Engine]:
    """Return the class of a type of engine. Raises RVT-109.

    >>> engine_class("pyspark").__name__
    'PySparkEngine'
    """
    return cast("type[Engine]", plugin_class(ENGINES, type_, Engine))


def declared_class(spec: EngineSpec) -> type[Engine]:
    """Return the class of a declared engine, by its type and options. Raises RVT-109."""
    return engine_class(spec.type).variant(spec.options)


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
    class_ = declared_class(spec)
    options = expand_variables(spec.options, environ)
    if class_.variant(options) is not class_:
        message = f"engine '{spec.name}': what it can do depends on the value of a variable, which the plan cannot know"
        raise RivetError("RVT-104", message, remediation="Write the value of that option out.")
    paths = {key: absolute_paths(options[key], root) for key in class_.path_options & options.keys()}
    engine = class_(replace(spec, options=options | paths), connect, check_interrupt, needs)
    engine.root = root
    return engine


def concurrency_limit(spec: EngineSpec) -> int:
    """Return how many groups may run on an engine at once, by the profile or else by its plugin. Raises RVT-109.

    >>> concurrency_limit(EngineSpec("spark", "pyspark"))
    1
    """
    return spec.concurrency_limit or declared_class(spec).default_concurrency


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
        class_.refuses_table,
        class_.refuses_catalogs,
        class_.refuses_check,
        lambda options: None if (variant := class_.variant(options)) is class_ else _traits(variant),
    )
