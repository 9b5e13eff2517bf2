"""A project's declarations, read and validated file by file, before they are compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.automation import (
    AutomationRule,
    FreshnessRule,
    ObservationSchedule,
    Sensors,
    SweepSchedule,
    TargetSchedule,
    UpkeepSchedule,
)
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.text_lines import Origin

MANIFEST = "rivet.yaml"
"""The manifest: the file of a project that names all others."""


@dataclass(frozen=True)
class PythonFunction:
    """A Python joint's function, read from its file without importing it.

    ``file`` is relative to the project. ``parameters`` can be passed by position or by name. ``tree`` is a text of the
    function's syntax tree, which changes if and only if its code does.
    """

    file: str
    name: str
    line: int
    parameters: tuple[str, ...]
    tree: str


@dataclass(frozen=True)
class MacroFile:
    """A file of macros, relative to the project, and its text."""

    file: str
    text: str


@dataclass(frozen=True)
class ProjectVariables:
    """The variables of a project under one profile, by name.

    ``values`` are constants, plain data that templates write as text. ``bound`` are texts that hold ``${VAR}``,
    unexpanded: a run binds their values as parameters.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """A dashboard, notebook or application that reads joints; in Dagster it is an external asset."""

    name: str
    depends_on: tuple[str, ...]
    owners: tuple[str, ...] = ()
    url: str | None = None
    description: str | None = None
    origin: Origin = Origin()


@dataclass(frozen=True)
class DagsterSettings:
    """The ``dagster:`` block of rivet.yaml."""

    key_prefix: tuple[str, ...] = ()
    io_manager_key: str = "rivet_io_manager"
    sensors: Sensors = Sensors()
    schedules: tuple[TargetSchedule, ...] = ()
    sweeps: tuple[SweepSchedule, ...] = ()
    upkeeps: tuple[UpkeepSchedule, ...] = ()
    observe: tuple[ObservationSchedule, ...] = ()
    automation: tuple[AutomationRule, ...] = ()
    freshness: tuple[FreshnessRule, ...] = ()
    exposures: tuple[Exposure, ...] = ()


@dataclass(frozen=True)
class Project:
    """The declarations of a project under one profile, and the errors in single files.

    ``functions`` are the functions of Python joints by joint name. ``asset_groups`` is each joint's top-level folder
    below the manifest's path, by joint name; joints outside of folders are left out. ``fail_fast`` is whether a run
    starts no further group after one has failed. ``defaults`` are the places in rivet.yaml where values of keys of a
    joint were given, by joint and key. ``macros`` and ``variables`` are those of its templates.
    """

    profile: Profile
    joints: tuple[Joint, ...]
    functions: Mapping[str, PythonFunction] = field(default_factory=dict)
    asset_groups: Mapping[str, str] = field(default_factory=dict)
    dagster: DagsterSettings = DagsterSettings()
    errors: tuple[Diagnostic, ...] = ()
    fail_fast: bool = True
    defaults: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    macros: tuple[MacroFile, ...] = ()
    variables: ProjectVariables = ProjectVariables()


def is_of_block(error: Diagnostic) -> bool:
    """Return whether an error is in the ``dagster:`` block, on which no joint depends; others are raised."""
    return error.joint is None and error.file == MANIFEST
