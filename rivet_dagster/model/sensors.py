"""The sensors that the ``dagster:`` block of rivet.yaml asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rivet_dagster.model.automation import STOPPED
from rivet_dagster.model.origin import Origin

SWEEP_ENDS = ("failure", "canceled")
"""How the runs end after which a sweep sensor sweeps: it is two sensors, whose names end so."""


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """What all sensors have; ``default_status`` is RUNNING or STOPPED."""

    name: str
    default_status: str = STOPPED
    minimum_interval_seconds: int | None = None
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class TargetSensor(Sensor):
    """What those have that make a ``target``."""

    target: str


@dataclass(frozen=True, kw_only=True)
class FilesSensor(TargetSensor):
    """Make ``target`` when files of ``source`` are new or have changed."""

    source: str


@dataclass(frozen=True, kw_only=True)
class SourceChangedSensor(TargetSensor):
    """Make ``target`` when the data version of one of ``sources`` has changed."""

    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AfterSuccessSensor(TargetSensor):
    """Make ``target`` when all that ``monitored`` selects has been materialized."""

    monitored: str


@dataclass(frozen=True, kw_only=True)
class SweepSensor(Sensor):
    """Sweep after each run of the project that failed or was canceled."""


@dataclass(frozen=True)
class Sensors:
    """All sensors, by kind."""

    files: tuple[FilesSensor, ...] = ()
    source_changed: tuple[SourceChangedSensor, ...] = ()
    after_success: tuple[AfterSuccessSensor, ...] = ()
    sweep: tuple[SweepSensor, ...] = ()

    def __iter__(self) -> Iterator[Sensor]:
        yield from (*self.files, *self.source_changed, *self.after_success, *self.sweep)
