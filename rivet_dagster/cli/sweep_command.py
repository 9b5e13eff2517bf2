"""``rivet-dagster sweep``: remove what dead runs left in the catalogs of a profile."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.project.load import load_project


def sweep_command(options: argparse.Namespace) -> int:
    """Sweep every catalog and say what went; joints that do not compile are no hindrance."""
    root = Path(options.project)
    total = 0
    for spec in load_project(root, options.profile).profile.catalogs:
        for name in open_catalog(spec, root, os.environ).sweep():
            print(f"removed {spec.name}: {name}")
            total += 1
    print(f"{total} leftover{'' if total == 1 else 's'} of dead runs removed")
    return 0
