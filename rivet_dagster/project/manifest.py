"""rivet.yaml: the paths of the project's files, and the settings of its Dagster definitions."""

from __future__ import annotations

import os.path
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model.project import MANIFEST, DagsterSettings
from rivet_dagster.project.automation import (
    read_automation,
    read_exposures,
    read_freshness,
    read_observations,
    read_schedules,
    read_sensors,
)
from rivet_dagster.project.defaults import Defaults, read_defaults
from rivet_dagster.project.settings_file import SettingsSection, boolean, read_settings, text
from rivet_dagster.project.variables import VARS, read_variables
from rivet_dagster.project.yaml_text import Located

_REQUIRED = ("profiles", "sources", "joints", "sinks")
_OPTIONAL = ("quality", "tests", "macros")
_FAIL_FAST = "fail_fast"
_DAGSTER = ("key_prefix", "io_manager_key", "schedules", "sensors", "observe", "automation", "freshness", "exposures")
_KEY_PART = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class ProjectManifest:
    """The paths of a project, relative to it; None where one is missing or wrong."""

    profiles: str | None
    sources: str | None
    joints: str | None
    sinks: str | None
    quality: str | None
    tests: str | None
    macros: str | None
    dagster: DagsterSettings
    fail_fast: bool = True
    defaults: Defaults = Defaults()
    variables: Mapping[str, Any] = field(default_factory=dict)
    variable_lines: Mapping[str, int] = field(default_factory=dict)
    dagster_errors: tuple[Diagnostic, ...] = ()
    """Errors in the ``dagster:`` block; everything else can be read without it."""

    @property
    def joint_folders(self) -> tuple[str, ...]:
        """The distinct folders of joints."""
        return tuple(dict.fromkeys(path for path in (self.sources, self.joints, self.sinks) if path is not None))


def read_manifest(root: Path) -> tuple[ProjectManifest, list[Diagnostic]]:
    """Return the manifest of the project in ``root``, and the errors in it. Raise RVT-101 or RVT-102.

    The folders ``quality``, ``tests`` and ``macros`` are used if they exist, even if the manifest does not name them.
    """
    if not (root / MANIFEST).is_file():
        raise RivetError("RVT-101", f"there is no {MANIFEST} in {root}{_neighbour(root / MANIFEST)}")
    errors: list[Diagnostic] = []
    section = SettingsSection(read_settings(root / MANIFEST, MANIFEST), "", MANIFEST, errors)
    section.only((*_REQUIRED, *_OPTIONAL, _FAIL_FAST, "defaults", VARS, "dagster"))
    paths = {key: section.need(key, _path) for key in _REQUIRED} | {key: section.get(key, _path) for key in _OPTIONAL}
    for key, path in paths.items():
        if path is None and key in _OPTIONAL and key not in section.value and (root / key).is_dir():
            paths[key] = key
        elif path is not None and not _exists(section, key, root / path):
            paths[key] = None
    in_block: list[Diagnostic] = []
    fail_fast = section.get(_FAIL_FAST, boolean) is not False
    dagster = _dagster(section, in_block)
    declared = section.value.get(VARS)
    manifest = ProjectManifest(
        dagster=dagster,
        fail_fast=fail_fast,
        defaults=read_defaults(section, root),
        variables=read_variables(section),
        variable_lines=declared.lines if isinstance(declared, Located) else {},
        dagster_errors=tuple(in_block),
        **paths,
    )
    return manifest, errors


def _path(value: Any) -> str:
    path = posixpath.normpath(text(value))
    if posixpath.isabs(path) or path == "." or path.split("/")[0] == "..":
        raise ValueError("must be the path of something inside the project, relative to it")
    return path


def _exists(section: SettingsSection, key: str, path: Path) -> bool:
    kind, exists = ("file", os.path.isfile(path)) if key == "profiles" else ("folder", os.path.isdir(path))
    if not exists:
        problem = f"is no {kind}" if os.path.exists(path) else "does not exist"
        section.wrong("RVT-108", f"`{key}`: the {kind} '{section.value[key]}' {problem}{_neighbour(path)}", key)
    return exists


def _neighbour(path: Path) -> str:
    """Return a hint, the end of a message, at a file or folder with a name similar to the missing ``path``'s."""
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return nearest(path.name, [name for name in names if name != path.name], listed=False, cutoff=0.8)


def _dagster(manifest: SettingsSection, errors: list[Diagnostic]) -> DagsterSettings:
    """Return the settings of the block; add its errors to ``errors``."""
    section = SettingsSection(manifest.value, "", MANIFEST, errors).section("dagster", "`dagster`")
    if section is None:
        return DagsterSettings()
    section.only(_DAGSTER)
    schedules = read_schedules(section)
    return DagsterSettings(
        key_prefix=section.get("key_prefix", _key_prefix) or (),
        io_manager_key=section.get("io_manager_key", _resource_key) or DagsterSettings.io_manager_key,
        sensors=read_sensors(section),
        schedules=schedules.targets,
        sweeps=schedules.sweeps,
        upkeeps=schedules.upkeeps,
        observe=read_observations(section),
        automation=read_automation(section),
        freshness=read_freshness(section),
        exposures=read_exposures(section),
    )


def _key_prefix(value: Any) -> tuple[str, ...]:
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) and _KEY_PART.fullmatch(part) for part in parts):
        raise ValueError("must be a list of key parts, each of letters, digits, '_', '-' and '.', like [sales, europe]")
    return tuple(parts)


def _resource_key(value: Any) -> str:
    if not text(value).isidentifier() or not value.isascii():
        raise ValueError("must be the key of a Dagster resource: letters, digits and '_', not beginning with a digit")
    return str(value)
