"""The block ``defaults`` of rivet.yaml: keys that joints have unless their own file gives them.

A key of the block that is a joint's key holds for all joints in files; any other key is a folder, below which it holds
for the joints there. The nearest wins, as a whole: values are not merged. A default that has no meaning on a joint's
type does not concern it, nor do options of steps on a source, or the write strategy and options of storage on a joint
that is published nowhere. A key without a value (null) has no default: neither the block's nor one from farther away.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model.joint import KEYS, SINK, SOURCE, TYPES, Joint, required_keys
from rivet_dagster.model.project import MANIFEST
from rivet_dagster.model.step_options import STEP_OPTIONS
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.project.known_files import Draft
from rivet_dagster.project.settings_file import SettingsSection, what
from rivet_dagster.project.yaml_text import Located, nested_lines, plain

_KEY = "defaults"
DEFAULT_KEYS = tuple(name for name, key in KEYS.items() if key.in_defaults)


@dataclass(frozen=True)
class Default:
    """A value, and where it is given: the line in rivet.yaml."""

    value: Any
    line: int | None

    @property
    def location(self) -> str:
        """The file and the line."""
        return f"{MANIFEST}:{self.line}"


@dataclass(frozen=True)
class Defaults:
    """Defaults by key, by the folder for which they are; the empty text stands for the whole project."""

    by_folder: Mapping[str, Mapping[str, Default]] = field(default_factory=dict)

    def apply(self, draft: Draft) -> tuple[Draft, dict[str, str]]:
        """Return a draft with the defaults that concern it, and where each of its keys comes from that is one."""
        type_ = draft.fields.get("type")
        if not self.by_folder or type_ not in TYPES:
            return draft, {}
        values: dict[str, Any] = {}
        locations: dict[str, str] = {}
        folders = [self.by_folder.get(folder, {}) for folder in _folders(posixpath.dirname(str(draft.origin.file)))]
        catalogs = [defaults["catalog"].value for defaults in folders if "catalog" in defaults]
        declared = draft.fields.keys() | draft.origin.lines.keys()  # the lines know keys without a value, too
        catalog = draft.fields.get("catalog") if "catalog" in declared else [None, *catalogs][-1]
        has_table = type_ in (SOURCE, SINK) or catalog is not None
        for defaults in folders:
            for key, default in defaults.items():
                value = _for_type(key, default.value, type_, has_table)
                if value is not None and key not in declared:
                    values[key], locations[key] = value, default.location
                elif default.value is None:
                    values.pop(key, None)
                    locations.pop(key, None)
        return (replace(draft, fields={**draft.fields, **values}, converted=None), locations) if values else (draft, {})


def read_defaults(manifest: SettingsSection, root: Path) -> Defaults:
    """Return the block of a manifest; add its errors to those of the section."""
    section = manifest.section(_KEY, f"`{_KEY}`")
    if section is None:
        return Defaults()
    by_folder: dict[str, dict[str, Default]] = {}
    for_all: dict[str, Default] = {}
    for key, value in section.value.items():
        if key in KEYS:
            for_all |= _default(section, key, value)
        elif not isinstance(value, Located):
            known = nearest(key, DEFAULT_KEYS)
            section.wrong("RVT-103", f"'{key}' is no key of a joint{known}; of a folder it {_mapping(value)}", key)
        else:
            folder = posixpath.normpath(key)
            if not (root / folder).is_dir():
                message = f"there is no folder '{key}', and no key of a joint of that name{nearest(key, DEFAULT_KEYS)}"
                section.wrong("RVT-108", message, key)
            inner = SettingsSection(value, f"`{_KEY}` of {folder}", MANIFEST, section.errors)
            for name, each in value.items():
                by_folder.setdefault(folder, {}).update(_default(inner, name, each))
    return Defaults({"": for_all, **by_folder})


def _default(section: SettingsSection, key: str, value: Any) -> dict[str, Default]:
    if key not in DEFAULT_KEYS:
        why = f"`{key}`: each joint has its own" if key in KEYS else f"unknown key '{key}'{nearest(key, DEFAULT_KEYS)}"
        section.wrong("RVT-103", why, key)
        return {}
    errors = [] if value is None else _errors(section, key, value)
    section.errors += errors
    return {} if errors else {key: Default(plain(value), section.origin.line_of(key))}


def _errors(section: SettingsSection, key: str, value: Any) -> list[Diagnostic]:
    """Return what a joint of some type would say of the value."""
    lines = nested_lines(section.value) | section.value.lines
    origin = Origin(MANIFEST, section.origin.line_of(key), lines)
    for type_ in TYPES:
        needed = dict.fromkeys((*required_keys(type_), "catalog"), "x")
        part = _for_type(key, plain(value), type_, True)
        if part is None:
            continue
        try:
            Joint(**{"name": "x", "type": type_, "origin": origin, **needed, key: part})
        except RivetError as error:
            return [
                replace(each, joint=None, message=f"{section.subject}: {each.message}") for each in error.diagnostics
            ]
    return []


def _for_type(key: str, value: Any, type_: str, has_table: bool) -> Any:
    """Return the part of a value that has a meaning on joints of a type, with or without a table; None if nothing has.

    >>> _for_type("options", {"retries": 2, "compression": "zstd"}, "sql", False)
    {'retries': 2}
    """
    if type_ not in KEYS[key].types or (KEYS[key].published_only and not has_table):
        return None
    if key != "options" or not isinstance(value, Mapping):
        return value
    # Only storage has other options than those of a step, and only what runs has these.
    return {n: each for n, each in value.items() if (type_ != SOURCE if n in STEP_OPTIONS else has_table)} or None


def _folders(folder: str) -> Iterator[str]:
    """Yield the folder and those above it, the farthest first.

    >>> list(_folders("joints/marts"))
    ['', 'joints', 'joints/marts']
    """
    parts = folder.split("/") if folder else []
    for length in range(len(parts) + 1):
        yield "/".join(parts[:length])


def _mapping(value: Any) -> str:
    return f"must be a mapping, not {what(value)}"
