"""The request that a call of ``rivet-dagster run`` makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunRequest:
    """The joints to materialize, each maybe with a leading +, and how.

    ``select`` is a selection in Dagster's syntax; ``environment`` the name of ``--environment``, None without it. With
    ``full_refresh`` targets are replaced as by a first run.
    """

    joints: tuple[str, ...] = ()
    select: str | None = None
    partition: str | None = None
    partition_range: str | None = None
    changed: bool = False
    no_fail_fast: bool = False
    environment: str | None = None
    full_refresh: bool = False
