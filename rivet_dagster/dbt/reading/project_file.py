"""dbt_project.yml: the name of a project, its folders, and the configuration of its nodes.

Keys that a project of joints has no use for are listed, so that none is passed over in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rivet_dagster.dbt.files import line_of, read_yaml_file
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
    hooks: tuple[tuple[str, Any, int], ...] = ()
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
    hooks = tuple((key, value[key], line_of(value, key)) for key in ("on-run-start", "on-run-end") if value.get(key))
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
    orders = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("search_order"), list):
            orders[str(entry.get("macro_namespace"))] = tuple(map(str, entry["search_order"]))
    return orders


def _neighbour(folder: Path) -> str:
    names = [path.parent.name for path in folder.glob(f"*/{PROJECT_FILE}")] if folder.is_dir() else []
    if names:
        return f"; there is one in {', '.join(sorted(names)[:3])}"
    beside = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return nearest(PROJECT_FILE, beside, listed=False)


_NODE = frozenset("name description columns config data_tests tests docs meta group access contract".split())
_USED = {
    "model": _NODE | {"versions", "latest_version", "v", "defined_in"},
    "seed": _NODE,
    "snapshot": _NODE | {"relation"},
    "analysis": _NODE,
    "test": _NODE,
    "macro": frozenset("name description arguments docs meta config".split()),
    "column": frozenset("name description data_type data_tests tests quote include exclude config".split()),
    "source": frozenset(
        "name description tables schema database config freshness loaded_at_field tags meta enabled data_tests tests "
        "tables".split()
    ),
    "table": frozenset(
        "name description identifier columns config freshness loaded_at_field tags meta enabled data_tests "
        "tests".split()
    ),
    "unit_test": frozenset("name model description given expect overrides versions config".split()),
    "exposure": frozenset(
        "name label type maturity url description owner depends_on tags meta enabled config docs".split()
    ),
    "group": frozenset("name owner description config".split()),
    "dbt_project.yml": frozenset(
        "name profile model-paths source-paths seed-paths data-paths snapshot-paths test-paths macro-paths "
        "analysis-paths docs-paths models seeds snapshots sources tests data_tests vars dispatch on-run-start "
        "on-run-end packages-install-path modules-path target-path version config-version".split()
    ),
}
"""The keys that are used, or are only for people, by what has them."""

_WITHOUT = {
    "constraints": "have no counterpart: declare checks in their place",
    "semantic_model": "has no counterpart",
    "metrics": "have no counterpart",
    "derived_semantics": "have no counterpart",
    "agg_time_dimension": "has no counterpart",
    "entity": "has no counterpart",
    "dimension": "has no counterpart",
    "deprecation_date": "has no counterpart",
    "time_spine": "has no counterpart",
    "primary_key": "has no counterpart",
    "meta": "has no counterpart",
    "tags": "have no counterpart at a column",
    "granularity": "has no counterpart",
    "policy_tags": "have no counterpart",
    "loader": "has no counterpart",
    "quoting": "is not used: names are quoted where they must be",
    "overrides": "has no counterpart",
    "external": "has no counterpart: the table must be there",
    "loaded_at_query": "has no counterpart",
    "identifier": "is not used",
    "catalog": "is not used: the table is looked for in the session's catalog",
}
_OF_DBT = frozenset(
    "analyses asset-paths clean-targets config-version dbt-cloud exposures flags functions log-path metrics "
    "query-comment quoting require-dbt-version restrict-access saved-queries semantic-models unit_tests".split()
)
_CONFIG = frozenset(
    "materialized incremental_strategy unique_key partition_by on_schema_change enabled alias schema strategy "
    "updated_at tags check_cols column_types delimiter pre_hook post_hook grants".split()
)


def unused_keys(kind: str, entry: Located) -> Iterator[tuple[str, int, str]]:
    """Yield the keys of an entry that are not used, each with its line and the reason.

    >>> entry = Located(1) | {"name": "a", "descripton": "x", "materialized": "table", "deprecation_date": None}
    >>> for key, _, reason in unused_keys("model", entry): print(key, reason)
    descripton is not known; did you mean 'description'?
    materialized is not used: it belongs below `config`
    """
    used = _USED[kind]
    for key, value in entry.items():
        if key in used or value in (None, False, "", [], {}):
            continue
        if kind == "dbt_project.yml" and key in _OF_DBT:
            reason = "is a setting of dbt itself"
        elif kind in ("model", "seed", "snapshot", "test") and key in _CONFIG:
            reason = "is not used: it belongs below `config`"
        elif kind != "dbt_project.yml" and key in _WITHOUT:
            reason = _WITHOUT[key]
        else:
            reason = f"is not known{nearest(key, used, listed=False)}"
        yield key, line_of(entry, key), reason


def notes_of(kind: str, entry: Located) -> tuple[str, ...]:
    """Return what is told of a node's or a source's keys that are not used, and of those of its columns."""
    notes = [f"`{key}` {reason}" for key, _, reason in unused_keys(kind, entry)]
    by_reason: dict[tuple[str, str], list[str]] = {}
    columns = entry.get("columns")
    for column in columns if isinstance(columns, list) else ():
        config = column.get("config") if isinstance(column, Located) else None
        for level in (column, config):
            if isinstance(level, Located):
                for key, _, reason in unused_keys("column", level):
                    by_reason.setdefault((key, reason), []).append(str(column.get("name")))
    return (*notes, *(f"`{key}` ({', '.join(names[:5])}) {reason}" for (key, reason), names in by_reason.items()))
