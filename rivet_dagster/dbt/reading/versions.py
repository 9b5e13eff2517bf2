"""Versions of models: their files, and what each one's properties are of those of the model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rivet_dagster.dbt.declared import MODEL, ModelVersion, Properties
from rivet_dagster.dbt.files import line_of
from rivet_dagster.project.yaml_text import Located


def files_of_versions(
    patches: Mapping[tuple[str, str], Properties], files: Collection[str]
) -> Iterator[tuple[str, tuple[str, ModelVersion, Any]]]:
    """Yield the stems of the files of versions, each with the model's name, the version, and the latest one.

    ``files`` are the stems of all files of models: the file of the latest version may have the name of the model alone.
    """
    for (kind, name), patch in patches.items():
        if kind != MODEL or not patch.versions:
            continue
        latest = patch.latest_version
        if latest is None:
            latest = max((version.v for version in patch.versions), key=_in_order)
        for version in patch.versions:
            named = (f"{name}_v{version.v}", f"{name}.v{version.v}")
            stems = named if version.defined_in is None else (version.defined_in,)
            if str(version.v) == str(latest) and not any(stem in files for stem in stems):
                stems = (name,)
            for stem in stems:
                yield stem, (name, version, latest)


def _in_order(version: Any) -> tuple[int, float, str]:
    try:
        return 1, float(version), ""
    except (TypeError, ValueError):
        return 0, 0.0, str(version)


def whole_version(entry: Located, each: Located) -> Located:
    """Return the properties of a version: those of the model, and its own in their place."""
    whole = Located(each.line)
    whole |= {key: value for key, value in entry.items() if key != "versions"}
    whole.lines |= entry.lines
    if isinstance(each.get("columns"), list):
        whole["columns"] = _columns_of_version(each["columns"], entry.get("columns"))
    whole |= {key: value for key, value in each.items() if key not in ("columns", "config", "v")}
    whole.lines |= each.lines
    if isinstance(entry.get("config"), Located) and isinstance(each.get("config"), Located):
        config = Located(each.line)
        config |= {**entry["config"], **each["config"]}
        config.lines |= {**entry["config"].lines, **each["config"].lines}
        whole["config"] = config
    elif each.get("config") is not None:
        whole["config"] = each["config"]
    return whole


def wrong_rules(version: Located) -> Iterator[tuple[str, int]]:
    """Yield each ``include`` and ``exclude`` of a version's columns that is no list, with its line."""
    columns = version.get("columns")
    for ruled in columns if isinstance(columns, list) else ():
        for key in ("include", "exclude"):
            value = ruled.get(key) if isinstance(ruled, Located) else None
            if value not in (None, "all", "*") and not isinstance(value, list):
                yield key, line_of(ruled, key)


def _columns_of_version(entries: list[Any], whole: Any) -> list[Any]:
    """Return the columns of a version: its own, and those of the model that ``include`` and ``exclude`` leave."""
    columns = [entry for entry in whole if isinstance(entry, Mapping)] if isinstance(whole, list) else []
    listed = [entry for entry in entries if isinstance(entry, Mapping)]
    ruled = next((entry for entry in listed if "include" in entry or "exclude" in entry), None)
    named = [entry for entry in listed if "name" in entry]
    inherited: list[Any] = []
    if ruled is not None:
        include, exclude = ruled.get("include", "all"), _names(ruled.get("exclude"))
        everything = include in ("all", "*")
        inherited = [
            e for e in columns if (everything or e.get("name") in _names(include)) and e.get("name") not in exclude
        ]
    replaced = [entry["name"] for entry in named]
    return [*(entry for entry in inherited if entry.get("name") not in replaced), *named]


def _names(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
