"""The installed types of engine."""

from __future__ import annotations

from typing import cast

from rivet_dagster.engines.contract import Engine
from rivet_dagster.model.entry_points import ENGINES, plugin_class, plugins
from rivet_dagster.model.plugins import EngineTraits


def engine_class(type_: str) -> type[Engine]:
    """The class of a type of engine. Raises RVT-109.

    >>> engine_class("pyspark").__name__
    'PySparkEngine'
    """
    return cast("type[Engine]", plugin_class(ENGINES, type_))


def engine_traits() -> dict[str, EngineTraits]:
    """What the compiler needs to know of every installed type."""
    classes = {type_: engine_class(type_) for type_ in plugins(ENGINES)}
    return {type_: EngineTraits(found.options, found.check) for type_, found in classes.items()}
