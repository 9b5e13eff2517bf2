"""``rivet-dagster sweep``: remove the leftovers of dead runs from the catalogs of a profile."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.upkeep import Sweeps
from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.execution.clean_up import sweep
from rivet_dagster.project.load import load_project


def sweep_catalogs(root: Path, profile: str | None) -> None:
    """Sweep every catalog, print what was removed, then raise the errors; the joints need not compile.

    Catalogs that are written to and cannot sweep are named.
    """
    specs = load_project(root, profile).profile.catalogs
    catalogs = [open_catalog(spec, root, os.environ) for spec in specs]
    swept = sweep(catalogs)
    for catalog in catalogs:
        if isinstance(catalog, HasTargets) and not isinstance(catalog, Sweeps):
            print(f"{catalog.name}: not swept: catalogs of the type {catalog.type} cannot", file=sys.stderr)
    for name in swept.names:
        print(f"removed {name}")
    print(f"{len(swept.names)} leftover{'' if len(swept.names) == 1 else 's'} of dead runs removed")
    swept.raise_errors()
