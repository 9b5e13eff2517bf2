"""Copies of the example project, without the files of a demo in the repository."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

from support.spark import MASTER, WITH_CODE

EXAMPLE = Path(__file__).parents[2] / "example_repo"


def copy_of_the_example(folder: Path) -> Path:
    """Copy the example with its data to ``folder``."""
    place = folder / EXAMPLE.name
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("data", "warehouse", ".rivet", "__pycache__"))
    runpy.run_path(str(place / "get_data.py"), run_name="__main__")
    return place


def use_spark_of_tests(project: Path) -> None:
    """Have the example's profiles name the Spark master of the tests, and Spark compile its queries over many rows."""
    profiles = project / "profiles.yaml"
    text = profiles.read_text()
    assert "master: local[*]" in text
    code = "".join(f"        {name}: {value}\n" for name, value in WITH_CODE.items())
    text = text.replace("master: local[*]", f"master: {MASTER}").replace("      config:\n", f"      config:\n{code}")
    profiles.write_text(text)
