"""Step options: those ``options`` of a joint that concern the step that runs its group, not its storage."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.model import convert


@dataclass(frozen=True)
class StepOptions:
    """The retries of a step after a transient error, and the delay before each, in seconds.

    ``timeout`` is the limit of one attempt, in seconds; ``pool`` is the step's Dagster pool, instead of the engine's.
    ``config`` holds settings of the engine for the sessions of the group.
    """

    retries: int = 0
    retry_delay: float = 0.0
    timeout: float | None = None
    pool: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)


def step_options(options: Mapping[str, Any]) -> tuple[StepOptions, dict[str, Any]]:
    """Return the step options and all other options. Raise ValueError.

    >>> step_options({"retries": 2, "retry_delay": "30s", "compression": "zstd"})
    (StepOptions(retries=2, retry_delay=30.0, timeout=None, pool=None, config={}), {'compression': 'zstd'})
    """
    if not options or STEP_OPTIONS.keys().isdisjoint(options):
        return _NONE, dict(options)
    converted = {}
    for key in STEP_OPTIONS.keys() & options.keys():
        try:
            converted[key] = STEP_OPTIONS[key](options[key])
        except ValueError as error:
            raise convert.WrongKeyError(f"has a wrong `{key}`: it {error}", key) from None
    return StepOptions(**converted), {key: value for key, value in options.items() if key not in STEP_OPTIONS}


_NONE = StepOptions()


def _pool(value: Any) -> str:
    name = convert.text(value)
    if not re.fullmatch(r"\S+", name):
        raise ValueError(f"must be a name without spaces, not {convert.show(value)}")
    return name


def _settings(value: Any) -> dict[str, str]:
    return {key: convert.setting(one) for key, one in convert.mapping(value).items()}


STEP_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "retries": convert.whole(0),
    "retry_delay": convert.seconds,
    "timeout": convert.seconds,
    "pool": _pool,
    "config": _settings,
}
