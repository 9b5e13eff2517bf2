"""What a project wants of the Dagster instance that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Needs:
    """``pools`` are the limits of its engines' pools, ``named`` the pools that joints name besides.

    ``ticking`` are its schedules and sensors, ``running`` those that are on from the start; ``fresh`` are the assets
    with a freshness policy.
    """

    pools: Mapping[str, int] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    ticking: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
