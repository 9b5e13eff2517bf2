"""``rivet-dagster sweep``: remove the leftovers of dead runs from the catalogs of a profile."""

from __future__ import annotations

import os
from pathlib import Path

from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.execution.clean_up.sweeping import sweep
from rivet_dagster.project.load import load_project


def sweep_catalogs(root: Path, profile: str | None) -> None:
    """Sweep every catalog, print what was removed, then raise the errors; the joints need not compile."""
    specs = load_project(root, profile).profile.catalogs
    swept = sweep(open_catalog(spec, root, os.environ) for spec in specs)
    for name in swept.names:
        print(f"removed {name}")
    print(f"{len(swept.names)} leftover{'' if len(swept.names) == 1 else 's'} of dead runs removed")
    swept.raise_errors()
