"""`requirements/oldest.txt` has the minimum versions in `pyproject.toml` of all packages of Dagster."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PINNED = dict(re.findall(r"^(dagster[\w-]*)==([\d.]+)", (ROOT / "requirements/oldest.txt").read_text(), re.M))


def test_the_oldest_versions_are_the_minimum_that_the_project_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["ui"]]
    floors = dict(match.groups() for text in declared if (match := re.match(r"(dagster[\w-]*)>=([\d.]+)", text)))
    assert floors == {name: PINNED[name] for name in ("dagster", "dagster-pyspark", "dagster-webserver")}


def test_all_packages_of_dagster_are_from_one_release():
    locked = set(re.findall(r"^(dagster[\w-]*)==", (ROOT / "requirements/tools.txt").read_text(), re.M))
    assert set(PINNED) == locked
    assert len({version.rpartition(".")[2] for version in PINNED.values()}) == 1
