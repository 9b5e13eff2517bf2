"""Environments of a catalog whose tables are written without an engine."""

from __future__ import annotations

from pathlib import Path

from rivet_dagster.catalogs.environments.tables_over_base import TablesOverBase
from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from support.error_tables import publish as publish_with_errors
from support.tables import catalog, publish

NAME = "pr-7"


def environment(lake: FilesystemCatalog, name: str = NAME) -> TablesOverBase:
    """Return the catalog as an environment sees it, which is made if there is none."""
    lake.use_environment(name, "default")
    there = lake.in_environment(name)
    assert isinstance(there, TablesOverBase)
    return there


def content(folder: Path) -> dict[str, bytes | str]:
    """Return all files and links below a catalog's folder by path, but those of environments."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if ".environments" in path.parts or path.suffix == ".alive" or name == ".rivet/.gitignore":
            continue
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


# What processes do that are killed:


def build(root: Path) -> None:
    """Make the environment and build a table there, upon the base's, with another error table."""
    publish_with_errors(environment(catalog(root, "lake")), [2], ["new"])


def merge(root: Path) -> None:
    """Merge the environment."""
    catalog(root, "lake").merge(NAME)


def drop(root: Path) -> None:
    """Drop the environment."""
    catalog(root, "lake").drop(NAME)


def two_tables(root: Path) -> None:
    """Publish two tables in the base and build both, and a third one, in the environment."""
    lake = catalog(root, "lake")
    publish_with_errors(lake, [1], ["old"])
    publish(lake, [1], "others")
    there = environment(lake)
    publish_with_errors(there, [2], ["new"])
    publish(there, [2], "others")
    publish(there, [2], "more")
