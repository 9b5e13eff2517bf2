"""The installed types of engine."""

from __future__ import annotations

from typing import cast

from rivet_dagster.engines.contract import Engine
from rivet_dagster.entry_points import ENGINES, plugin_class, plugins
from rivet_dagster.model.plugins import EngineTraits
from rivet_dagster.model.profile import EngineSpec


def engine_class(type_: str) -> type[Engine]:
    """The class of a type of engine. Raises RVT-109.

    >>> engine_class("pyspark").__name__
    'PySparkEngine'
    """
    return cast("type[Engine]", plugin_class(ENGINES, type_))


def concurrency_limit(spec: EngineSpec) -> int:
    """How many groups of an engine run at once: what the profile says, else what its plugin does. Raises RVT-109.

    >>> concurrency_limit(EngineSpec("spark", "pyspark"))
    1
    """
    return spec.concurrency_limit or engine_class(spec.type).default_concurrency


def engine_traits() -> dict[str, EngineTraits]:
    """What the compiler needs to know of every installed type."""
    classes = {type_: engine_class(type_) for type_ in plugins(ENGINES)}
    return {
        type_: EngineTraits(found.options, found.check, found.reads, found.writes, found.dialect)
        for type_, found in classes.items()
    }
