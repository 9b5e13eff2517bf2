"""dbt_project.yml: the name of a project, its folders, and the configuration of its nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rivet_dagster.dbt.reading.known_keys import unused_keys
from rivet_dagster.dbt.yaml_file import line_of, read_yaml_file
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.project.text_file import TextError
from rivet_dagster.project.yaml_text import Located

PROJECT_FILE = "dbt_project.yml"

_PATHS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "models": ("model-paths", "source-paths", ("models",)),
    "seeds": ("seed-paths", "data-paths", ("seeds",)),
    "snapshots": ("snapshot-paths", "", ("snapshots",)),
    "tests": ("test-paths", "", ("tests",)),
    "macros": ("macro-paths", "", ("macros",)),
    "analyses": ("analysis-paths", "", ("analyses",)),
}
"""The keys of folders, with their old spellings and defaults."""

_TREES = {"models": "models", "seeds": "seeds", "snapshots": "snapshots", "sources": "sources", "tests": "data_tests"}


@dataclass(frozen=True)
class ProjectFile:
    """The settings of a project; ``file`` is the path from the directory that is imported, ``folder`` that of the file.

    ``paths`` are the folders by kind, ``trees`` the configuration by kind, as it stands in the file; ``unused`` are the
    keys that are not used, with their lines and the reasons.
    """

    name: str
    file: str
    folder: str
    paths: Mapping[str, tuple[str, ...]]
    docs_paths: tuple[str, ...]
    trees: Mapping[str, Located]
    variables: Mapping[str, Any] = field(default_factory=dict)
    dispatch: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    packages_path: str = "dbt_packages"
    target_path: str = "target"
    profile: str | None = None
    hooks: tuple[tuple[str, int], ...] = ()
    unused: tuple[tuple[str, int, str], ...] = ()

    @property
    def all_paths(self) -> tuple[str, ...]:
        """The folders in which properties files may be."""
        return tuple(dict.fromkeys(path for paths in self.paths.values() for path in paths))


def read_project_file(root: Path, folder: str = "") -> ProjectFile:
    """Return the settings of the project in a folder of ``root``. Raise RVT-141 or RVT-142."""
    file = f"{folder}/{PROJECT_FILE}".lstrip("/")
    path = root / file
    if not path.is_file():
        raise RivetError("RVT-141", f"there is no {PROJECT_FILE} in {root / folder}{_neighbour(root / folder)}")
    try:
        value = read_yaml_file(path)
    except TextError as error:
        raise RivetError("RVT-142", error.message, file=file, line=error.line) from None
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise RivetError("RVT-142", "the project has no `name`", file=file, line=line_of(value, "name"))
    paths = {kind: _texts(value, file, *keys) for kind, keys in _PATHS.items()}
    hooks = tuple((key, line_of(value, key)) for key in ("on-run-start", "on-run-end") if value.get(key))
    return ProjectFile(
        name=name,
        file=file,
        folder=folder,
        paths=paths,
        docs_paths=_texts(value, file, "docs-paths", "", tuple(dict.fromkeys(p for ps in paths.values() for p in ps))),
        trees={kind: _tree(value, file, kind, other) for kind, other in _TREES.items()},
        variables=_tree(value, file, "vars", "vars"),
        dispatch=_dispatch(value),
        packages_path=str(value.get("packages-install-path") or value.get("modules-path") or "dbt_packages"),
        target_path=str(value.get("target-path") or "target"),
        profile=value["profile"] if isinstance(value.get("profile"), str) else None,
        hooks=hooks,
        unused=(*unused_keys(PROJECT_FILE, value), *_missing(value, root, paths)) if not folder else (),
    )


def _texts(value: Located, file: str, key: str, old: str, default: tuple[str, ...]) -> tuple[str, ...]:
    used = key if key in value else old if old in value else None
    if used is None:
        return default
    given = value[used]
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RivetError("RVT-142", f"`{used}` must be a list of folders", file=file, line=line_of(value, used))
    return tuple(os.path.normpath(text) for text in texts)


def _missing(value: Located, root: Path, paths: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, int, str]]:
    """Yield the folders that are named, but are not there."""
    for kind, (key, old, _) in _PATHS.items():
        used = key if key in value else old
        for path in paths[kind] if used in value else ():
            if not (root / path).is_dir():
                yield used, line_of(value, used), f"names '{path}', which is no folder"


def _tree(value: Located, file: str, key: str, other: str) -> Located:
    merged = Located(line_of(value, key))
    for spelling in dict.fromkeys((key, other)):
        tree = value.get(spelling)
        if tree is None:
            continue
        if not isinstance(tree, Located):
            raise RivetError("RVT-142", f"`{spelling}` must be a mapping", file=file, line=line_of(value, spelling))
        merged |= tree
        merged.lines |= tree.lines
    return merged


def _dispatch(value: Located) -> dict[str, tuple[str, ...]]:
    entries = value.get("dispatch")
    found = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("search_order"), list):
            found[str(entry.get("macro_namespace"))] = tuple(map(str, entry["search_order"]))
    return found


def _neighbour(folder: Path) -> str:
    names = [path.parent.name for path in folder.glob(f"*/{PROJECT_FILE}")] if folder.is_dir() else []
    if names:
        return f"; there is one in {', '.join(sorted(names)[:3])}"
    beside = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return nearest(PROJECT_FILE, beside, listed=False)
