"""The installed types of engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from rivet_dagster.engines.contract import Engine
from rivet_dagster.entry_points import ENGINES, ByType, plugin_class
from rivet_dagster.model.plugins import EngineTraits
from rivet_dagster.model.profile import EngineSpec


def engine_class(type_: str) -> type[Engine]:
    """Return the class of a type of engine. Raises RVT-109.

    >>> engine_class("pyspark").__name__
    'PySparkEngine'
    """
    return cast("type[Engine]", plugin_class(ENGINES, type_, Engine))


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
        class_.options, class_.check, class_.reads, class_.writes, class_.dialect, class_.separates_errors
    )
