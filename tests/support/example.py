"""Copies of the example project, without the files of a demo in the repository."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "example_repo"


def copy_of_the_example(folder: Path) -> Path:
    """Copy the example with its data to ``folder``."""
    place = folder / EXAMPLE.name
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("data", "warehouse", ".rivet", "__pycache__"))
    runpy.run_path(str(place / "get_data.py"), run_name="__main__")
    return place
