"""The options of an engine with ``remote: sail``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rivet_dagster.engines.pyspark import config as of_spark
from rivet_dagster.engines.pyspark.server.sail_settings import wrong_settings
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.model import convert

_OF_JVM = {
    "master": "has no effect on Sail, which computes in its own process on this machine",
    "packages": "has no effect on Sail, which loads no jars",
    "jars": "has no effect on Sail, which loads no jars",
    "spark_home": "has no effect on Sail, which starts no Spark",
    "class_archive": "has no effect on Sail, which starts no JVM",
    "app_name": "has no effect on Sail, whose server shows no names",
}


def wrong_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the values of ``options``: a sentence by key.

    >>> wrong_options({"remote": "sail", "master": "local[2]"})
    {'master': 'has no effect on Sail, which computes in its own process on this machine'}
    """
    wrong = of_spark.wrong_options(
        {**options, "config": without_remote(options.get("config", {})), "remote": of_spark.LOCAL}
    )
    wrong |= {key: sentence for key, sentence in _OF_JVM.items() if key in options}
    config = options.get("config", {})
    if "config" not in wrong and isinstance(config, Mapping):
        given = without_remote(config)
        settings = {key: convert.setting(value) for key, value in given.items() if not is_unexpanded(value)}
        refused = wrong_settings(settings)
        if refused:
            wrong["config"] = "; ".join(f"{key} {sentence}" for key, sentence in refused.items())
    return wrong


def without_remote(config: Any) -> Any:
    """Return an engine's ``config`` without the setting that stands for its option ``remote``."""
    if not isinstance(config, Mapping):
        return config
    return {key: value for key, value in config.items() if key != "spark.remote"}


def sail_config(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of the server and of its sessions, with the ``spark.remote`` that is ``sail``."""
    config = {key: convert.setting(value) for key, value in (options.get("config") or {}).items()}
    return {**config, "spark.remote": of_spark.SAIL}
