"""Where the rows of a group go: a table of a catalog, and how they are written to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.model.partitions import Partitions
from rivet_dagster.model.write_plan import ReplaceAll, WritePlan


@dataclass(frozen=True, slots=True)
class WatermarkColumn:
    """The column of a target whose greatest value says how far it has come; ``lookback`` goes back from there."""

    column: str
    lookback: str | int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The table that a group's exit is published as.

    ``options`` are those of the table's storage. ``partitions`` are those of the exit, so that a run may replace some
    of them; ``on_empty`` says what becomes of an empty batch: ``write``, ``skip`` or ``fail``. ``retention`` is
    ``latest``, or ``run`` where the rows go as soon as the last reader has succeeded. ``environment`` names the branch
    of the data that the table belongs to, None the main one.
    """

    catalog: str
    table: str
    write: WritePlan = ReplaceAll()
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    partitions: Partitions | None = None
    on_empty: str = "write"
    watermark: WatermarkColumn | None = None
    retention: str = "latest"
    environment: str | None = None

    @property
    def takes_whole_batches(self) -> bool:
        """Return whether every run gives it all of its rows, or all of those of the run's partitions."""
        return isinstance(self.write, ReplaceAll)
