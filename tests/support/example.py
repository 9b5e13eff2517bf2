"""The example project, away from what a demo left in the repository."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "example_repo"


def copy_of_the_example(folder: Path) -> Path:
    """A copy in ``folder``, with its data."""
    place = folder / EXAMPLE.name
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("data", "warehouse", ".rivet", "__pycache__"))
    runpy.run_path(str(place / "get_data.py"), run_name="__main__")
    return place
