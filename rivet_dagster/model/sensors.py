"""The sensors declared in the ``dagster:`` block of rivet.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rivet_dagster.model.automation import STOPPED
from rivet_dagster.model.text_lines import Origin

SWEEP_ENDS = ("failure", "canceled")
"""The run outcomes after which a sweep sensor sweeps: it becomes two sensors, with these suffixes in their names."""


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """The common attributes of sensors; ``default_status`` is RUNNING or STOPPED."""

    name: str
    default_status: str = STOPPED
    minimum_interval_seconds: int | None = None
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class TargetSensor(Sensor):
    """The common attributes of sensors that materialize a ``target``."""

    target: str


@dataclass(frozen=True, kw_only=True)
class FilesSensor(TargetSensor):
    """Materialize ``target`` when files of ``source`` are new or have changed."""

    source: str


@dataclass(frozen=True, kw_only=True)
class SourceChangedSensor(TargetSensor):
    """Materialize ``target`` when the data version of one of ``sources`` has changed."""

    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AfterSuccessSensor(TargetSensor):
    """Materialize ``target`` when all joints that ``monitored`` selects have been materialized."""

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
