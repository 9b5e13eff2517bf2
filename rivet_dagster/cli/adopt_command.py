"""``rivet-dagster adopt``: take over a table that somebody else has made."""

from __future__ import annotations

from pathlib import Path

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.targets import Adopts
from rivet_dagster.cli.environment_command import runtime_of
from rivet_dagster.cli.versions_command import stored_joint
from rivet_dagster.errors import RivetError


def adopt_table(root: Path, profile: str | None, name: str, undo: bool = False) -> int:
    """Take over the table of a joint, or give it up again; print what was done, and return the exit code.

    Raises RVT-306, RVT-403, RVT-404, RVT-413.
    """
    runtime = runtime_of(root, profile, None)
    joint = stored_joint(name, runtime.assembly)
    assert joint.catalog is not None and joint.table is not None
    catalog = capable(runtime.catalog_within_reach(joint.catalog), Adopts)
    if undo:
        known = catalog.give_up(joint.table)
        print(f"{name}: {'its versions are forgotten; the table stays' if known else 'nothing was published'}")
        return 0
    published = catalog.adopt(joint.table)
    if published is None:
        remedy = "Run the joint: its first run makes the table."
        raise RivetError("RVT-403", f"there is no table {catalog.uri(joint.table)}", remediation=remedy)
    print(f"{name}: {published.uri} is version {published.version}, with {published.statistics.rows} rows")
    return 0
