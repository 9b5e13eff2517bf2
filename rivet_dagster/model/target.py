"""The target of a group's rows: a table of a catalog, and how it is written.

Locations of tables, by which two names of the same location are recognized.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.model.partitions import Partitions
from rivet_dagster.model.row_errors import ErrorTable
from rivet_dagster.model.write_plan import ReplaceAll, WritePlan

PUBLISH = "publish"
"""The option of a catalog that says when its tables are published."""

BY_GROUP, BY_RUN = "group", "run"
"""Its values: each by the step of its group, or those of a run together by its last step."""


@dataclass(frozen=True, slots=True)
class WatermarkColumn:
    """The watermark column of a target, whose max is the watermark; ``lookback`` is subtracted from it."""

    column: str
    lookback: str | float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The table as which a group's exit is published.

    ``declared`` is whether the exit declares the table; else it is one of the workspace, in which the exit is stored.
    ``options`` are the options of the table's storage. ``partitions`` are those of the exit, of which a run may replace
    some; ``on_empty`` is what to do with an empty batch: ``write``, ``skip`` or ``fail``. ``retention`` is ``latest``,
    or ``run`` to remove the rows as soon as the last reader has succeeded. ``columns`` are the columns that the write
    needs in the batch, as pairs of the option that names it and its name. ``environment`` names the branch of the data
    to which the table belongs, None for the main one. ``errors`` is the table of row errors that is published
    with it, None where such an error fails the run. ``publish`` is ``group``, or ``run`` if the last step of a run
    publishes all its tables; ``one_commit`` says that it publishes those of this catalog in one commit. With ``adopt``
    a table that somebody else has made is taken over. ``keeps_versions`` says whether storage has older versions of the
    table, to which it can be rolled back.
    """

    catalog: str
    table: str
    declared: bool = False
    write: WritePlan = ReplaceAll()
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    partitions: Partitions | None = None
    on_empty: str = "write"
    columns: tuple[tuple[str, str], ...] = ()
    watermark: WatermarkColumn | None = None
    retention: str = "latest"
    environment: str | None = None
    errors: ErrorTable | None = None
    publish: str = BY_GROUP
    one_commit: bool = False
    adopt: bool = False
    keeps_versions: bool = True

    @property
    def with_run(self) -> bool:
        """Whether the last step of a run publishes it, together with the other tables of the run."""
        return self.publish == BY_RUN

    @property
    def is_its_batch(self) -> bool:
        """Whether a run's batch is all rows of the table, so that what holds for the batch holds for the table."""
        return isinstance(self.write, ReplaceAll) and self.partitions is None


Location = tuple[str, ...]
"""The parts of a path, from the storage inwards: a location that begins with another one is inside it.

For a table that is only read, parts may be ``fnmatch`` patterns; other wildcards are escaped in all locations.
"""

Resolved = Mapping[tuple[str, str], tuple[Location, ...]]
"""Locations known only on this machine (links, variables), by the names of a catalog and a table in it."""
