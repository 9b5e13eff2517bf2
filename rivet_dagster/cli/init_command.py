"""``rivet-dagster init``: the files of a new project."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path

from rivet_dagster.cli.schema_command import SCHEMAS
from rivet_dagster.errors import RivetError

PROJECT, EXAMPLE = "project", "example"
"""The templates: the files of every project, and those of the example in place of its joints."""

_NAMES = {"definitions.txt": "definitions.py", "gitignore.txt": ".gitignore", "vscode": ".vscode", "github": ".github"}
"""Templates that would be code, a rule or a setting of this package under their own names."""

_SCHEMAS = ".schemas"
"""Where the JSON Schemas for editors are; first lines of YAML files, and the settings of VS Code, name them."""

_FOLDERS = ("sources", "joints", "sinks", "tests")
_JOINTS = ("joints", "sinks")


def init_project(directory: Path, example: bool) -> int:
    """Write a project into a directory, which is made if it does not exist. Raises RVT-130 if files are there."""
    files = dict(_files(PROJECT))
    if example:
        files = {name: text for name, text in files.items() if name.split("/")[0] not in _JOINTS}
        files |= dict(_files(EXAMPLE))
    taken = [name for name in sorted({*files, "rivet.yaml"}) if (directory / name).exists()]
    if taken or (directory.exists() and not directory.is_dir()):
        what = f"has {', '.join(taken)} already" if taken else "is no directory"
        raise RivetError("RVT-130", f"{directory} {what}")
    files |= {f"{_SCHEMAS}/{name}.json": json.dumps(schema(), indent=1).encode() for name, schema in SCHEMAS.items()}
    for folder in _FOLDERS:
        (directory / folder).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        print(path)
    where = "" if directory == Path() else f" -p {directory}"
    print(f"next: `rivet-dagster compile{where}`, `rivet-dagster run{where}`")
    return 0


def _files(template: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a template, by their paths in the project."""
    root = importlib.resources.files("rivet_dagster.cli") / "templates" / template
    yield from _below(root, "")


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        name = f"{path}{_NAMES.get(entry.name, entry.name)}"
        if entry.is_dir():
            yield from _below(entry, f"{name}/")
        else:
            yield name, entry.read_bytes()
