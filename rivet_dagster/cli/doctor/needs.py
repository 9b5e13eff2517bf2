"""The requirements of a project on the Dagster instance that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Needs:
    """The requirements of a project on its Dagster instance.

    ``pools`` are the limits of its engines' pools by name, ``named`` the other pools that joints name. ``ticking`` are
    its schedules and sensors, ``running`` those that run by default; ``fresh`` are the assets with a freshness policy.
    """

    pools: Mapping[str, int] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    ticking: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
