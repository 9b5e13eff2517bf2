"""Those of a joint's ``options`` that concern the step which runs its group, not its storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rivet_dagster.model import convert


@dataclass(frozen=True)
class StepOptions:
    """How often a step that met a passing trouble is tried again, and after how many seconds."""

    retries: int = 0
    retry_delay: float = 0.0


def step_options(options: Mapping[str, Any]) -> tuple[StepOptions, dict[str, Any]]:
    """The options of the step, and all others; raises ValueError.

    >>> step_options({"retries": 2, "retry_delay": "30s", "compression": "zstd"})
    (StepOptions(retries=2, retry_delay=30.0), {'compression': 'zstd'})
    """
    found = {}
    for key in STEP_OPTIONS.keys() & options.keys():
        try:
            found[key] = STEP_OPTIONS[key](options[key])
        except ValueError as error:
            raise ValueError(f"has a wrong `{key}`: it {error}") from None
    return StepOptions(**found), {key: value for key, value in options.items() if key not in STEP_OPTIONS}


STEP_OPTIONS: dict[str, Callable[[Any], Any]] = {"retries": convert.whole(0), "retry_delay": convert.seconds}
