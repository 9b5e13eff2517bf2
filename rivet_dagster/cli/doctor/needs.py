"""What a project wants of the Dagster instance that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Needs:
    """``pools`` are the limits of its pools; ``ticking`` its schedules and sensors, ``running`` those of them that are
    on from the start, ``fresh`` the assets with a freshness policy.
    """

    pools: Mapping[str, int] = field(default_factory=dict)
    ticking: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
