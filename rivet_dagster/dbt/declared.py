"""Declarations of a dbt project: its nodes as they are read, before anything of them is translated.

Paths are relative to the project's directory, and lines count from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.dbt.template import DbtTemplate, TemplateBlock

MODEL, SEED, SNAPSHOT, SOURCE, TEST, MACRO = "model", "seed", "snapshot", "source", "test", "macro"

POSTGRES = "postgres"
"""The type of dbt's outputs that are PostgreSQL databases."""


@dataclass(frozen=True)
class DbtLocation:
    """A line of a file."""

    file: str
    line: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Config:
    """The configuration of a node: its values by key without ``+``, and where each one stands.

    ``unknown`` are keys whose values only a run of dbt knows, with the reasons.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    locations: Mapping[str, DbtLocation] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value; the default for one that is absent or null."""
        value = self.values.get(key)
        return default if value is None else value

    @property
    def is_enabled(self) -> bool:
        """Whether the node is part of the project."""
        return str(self.get("enabled", True)).strip().lower() != "false"


@dataclass(frozen=True)
class DeclaredColumn:
    """A column of properties; ``tests`` are its data tests."""

    name: str
    description: str = ""
    quote: bool = False
    tests: tuple[DataTest, ...] = ()


@dataclass(frozen=True)
class DataTest:
    """A generic data test as declared: its macro, the arguments, its configuration, and the column it stands at."""

    macro: str
    location: DbtLocation
    arguments: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    column: str | None = None
    quote: bool = False
    name: str | None = None
    description: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Properties:
    """Properties that a YAML file gives one model, seed, snapshot, analysis or macro.

    ``folder`` is where the file is below the folder of its kind, ``notes`` say what of it is not used.
    """

    name: str
    location: DbtLocation
    description: str = ""
    columns: tuple[DeclaredColumn, ...] = ()
    tests: tuple[DataTest, ...] = ()
    config: Config = Config()
    group: str | None = None
    versions: tuple[ModelVersion, ...] = ()
    latest_version: Any = None
    relation: str | None = None
    folder: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelVersion:
    """A version of a model; ``changes`` are the keys that it has in place of the model's."""

    v: Any
    defined_in: str | None
    location: DbtLocation
    properties: Properties


@dataclass(frozen=True)
class DbtNode:
    """A model, seed, snapshot or singular test.

    ``text`` is a model's or snapshot's query as a template, ``begins`` the line of the file on which it begins.
    ``code`` is the text of a Python model. ``problem`` says why it cannot be read; such a node has no text.
    """

    kind: str
    package: str
    name: str
    file: str
    fqn: tuple[str, ...]
    line: int = 1
    template: DbtTemplate | None = None
    inner: tuple[int, int] | None = None
    config: Config = Config()
    properties: Properties | None = None
    version: Any = None
    is_latest: bool = True
    problem: tuple[str, DbtLocation] | None = None
    code: str | None = None

    @property
    def location(self) -> DbtLocation:
        """Where the node is declared."""
        return DbtLocation(self.file, self.line)

    @property
    def key(self) -> tuple[str, str]:
        """The name by which nodes are found: a version has a name of its own."""
        return self.package, self.versioned_name

    @property
    def versioned_name(self) -> str:
        """The name, with the version if there is one."""
        return self.name if self.version is None else f"{self.name}_v{self.version}"


@dataclass(frozen=True)
class SourceTable:
    """A table of a source."""

    package: str
    source: str
    name: str
    identifier: str
    schema: str
    database: str | None
    location: DbtLocation
    description: str = ""
    config: Config = Config()
    columns: tuple[DeclaredColumn, ...] = ()
    tests: tuple[DataTest, ...] = ()
    tags: tuple[str, ...] = ()
    freshness: Any = None
    loaded_at_field: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Macro:
    """A macro or generic test of a package."""

    package: str
    name: str
    template: DbtTemplate
    block: TemplateBlock
    file: str

    @property
    def location(self) -> DbtLocation:
        """Where the macro begins."""
        return DbtLocation(self.file, self.template.line(self.block.start))


@dataclass(frozen=True)
class Owner:
    """Who is responsible for a group."""

    name: str | None
    emails: tuple[str, ...]


@dataclass(frozen=True)
class DeclaredExposure:
    """A dashboard or an application that reads models; ``depends_on`` are its calls of ref, source and metric."""

    name: str
    package: str
    location: DbtLocation
    depends_on: tuple[str, ...]
    owner: Owner
    url: str | None = None
    description: str = ""
    config: Config = Config()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnitTest:
    """A test of a model with given rows, as declared: the entries of ``given``, and the rows that it expects."""

    name: str
    package: str
    location: DbtLocation
    model: str
    given: tuple[Mapping[str, Any], ...] = ()
    expect: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    config: Config = Config()
    description: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Other:
    """Something else that the project declares: a metric, a hook, a macro's description, ...

    ``is_needed`` is whether anything is lost without it.
    """

    kind: str
    name: str
    location: DbtLocation
    reason: str = ""
    is_needed: bool = True


@dataclass(frozen=True)
class Package:
    """A dbt project, or a package that is installed in it.

    ``variables`` are those of its own file, ``tests`` its configuration of data tests by folder. ``fixtures`` are the
    files of rows for unit tests, by name.
    """

    name: str
    folder: str
    variables: Mapping[str, Any]
    nodes: tuple[DbtNode, ...]
    sources: tuple[SourceTable, ...]
    macros: tuple[Macro, ...]
    groups: Mapping[str, Owner]
    tests: Mapping[str, Any]
    others: tuple[Other, ...]
    problems: tuple[Other, ...]
    exposures: tuple[DeclaredExposure, ...] = ()
    unit_tests: tuple[UnitTest, ...] = ()
    fixtures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DbtTarget:
    """The target of dbt's profile; without a profile, that of dbt-spark's session mode."""

    name: str = "dev"
    profile: str = "default"
    adapter: str = "spark"
    schema: str = "default"
    method: str = "session"
    location: DbtLocation | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_postgres(self) -> bool:
        """Whether the models of the project are SQL of PostgreSQL."""
        return self.adapter == POSTGRES


@dataclass(frozen=True)
class DbtDatabase:
    """An output of dbt's profile that is a PostgreSQL database; its texts have ``${NAME}`` for what a run knows alone.

    ``name`` is that of the database, ``options`` are those of a catalog but its password. ``password`` is the variable
    of the environment that has it, empty where the profile holds the password itself, None where there is none.
    ``notes`` say what of the output is not used, or is something else.
    """

    output: str
    name: str
    options: Mapping[str, str]
    password: str | None
    location: DbtLocation
    is_target: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DbtProject:
    """A whole project: its packages, the root first, and the databases of its profile.

    ``built_in`` are the packages that are not installed, and of which the macros that are built in take the place.
    """

    packages: tuple[Package, ...]
    target: DbtTarget
    dispatch: Mapping[str, tuple[str, ...]]
    target_path: str
    databases: tuple[DbtDatabase, ...] = ()
    built_in: tuple[str, ...] = ()

    @property
    def root(self) -> Package:
        """The project itself."""
        return self.packages[0]

    def variable(self, package: str, name: str) -> Any:
        """Return a variable as a node of ``package`` sees it. Raise KeyError."""
        for variables in (self.root.variables, *(p.variables for p in self.packages[1:] if p.name == package)):
            in_package = variables.get(package)
            for scope in (in_package if isinstance(in_package, Mapping) else {}, variables):
                if name in scope:
                    return scope[name]
        raise KeyError(name)
