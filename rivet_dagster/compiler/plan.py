"""The CompiledAssembly: everything that a run follows, as frozen data that survives JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rivet_dagster.compiler.plan_json import read, write
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.check import Check
from rivet_dagster.model.landing import Landing
from rivet_dagster.model.partitions import Partitions
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.project import DagsterSettings
from rivet_dagster.model.schema import NONE, Field
from rivet_dagster.model.secret_options import literal_secrets, masked
from rivet_dagster.model.step_options import StepOptions
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_strategy import WriteStrategy


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column of a joint."""

    joint: str
    column: str


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """The columns that an output column is made from: of the direct upstream, and of the sources behind it.

    ``sources`` is None where the way there is not certain. What only filters, joins or groups rows is not listed.
    """

    column: str
    upstream: tuple[ColumnReference, ...]
    sources: tuple[ColumnReference, ...] | None


@dataclass(frozen=True, slots=True)
class TemplateNeeds:
    """What the texts of a template need of a run.

    ``sink`` is the one whose state decides between the two texts, None where there is one alone; ``watermark`` and
    ``this`` say whether the incremental text uses that sink's watermark and its published rows, ``run_started_at``
    whether either text uses the time at which the run began.
    """

    sink: str | None = None
    watermark: bool = False
    this: bool = False
    run_started_at: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledJoint:
    """One joint, resolved.

    ``sql`` is a SQL joint's own text, which begins on ``sql_line`` of its file, or a source's projection; of a template
    what a first run gets, and ``sql_incremental`` what later ones do, None where that is the same. ``group`` is
    its fused group, ``asset_group`` its group in Dagster. ``catalog`` and ``table`` say where a source lies or a stored
    result goes; both are None for a joint that is not stored. ``options`` are those of its storage, ``step``
    those of the step that runs its group, ``landing`` those of a source that is a landing zone; ``row_values`` says
    whether Dagster may keep values of its rows. ``schema`` is None
    where no column is known; ``lineage`` has no entry for a column whose origin is not certain.
    """

    name: str
    type: str
    engine: str
    upstream: tuple[str, ...]
    group: str
    asset_group: str
    code_version: str
    sql: str | None = None
    sql_incremental: str | None = None
    template: TemplateNeeds | None = None
    columns: tuple[tuple[str, str | None], ...] = ()
    filter: str | None = None
    limit: int | None = None
    catalog: str | None = None
    table: str | None = None
    function: str | None = None
    function_file: str | None = None
    write_strategy: WriteStrategy = WriteStrategy()
    partitions: Partitions | None = None
    checks: tuple[Check, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    step: StepOptions = StepOptions()
    landing: Landing | None = None
    retention: str = "latest"
    row_values: bool = True
    schema: tuple[Field, ...] | None = None
    schema_confidence: str = NONE
    lineage: tuple[ColumnLineage, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    owners: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None
    sql_line: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FusedGroup:
    """Joints that run as one query; ``inputs`` are the joints outside it that it reads.

    ``judged_with`` are those that only its checks read; ``target`` is where its exit is published, None of a source
    that stands alone, which is read in place. ``sql`` is the query without the write; None for a Python
    joint. ``sql_incremental`` is the query when all its templates are incremental, None where that is the same.
    """

    name: str
    engine: str
    joints: tuple[str, ...]
    exit: str
    inputs: tuple[str, ...]
    judged_with: tuple[str, ...] = ()
    target: Target | None = None
    sql: str | None
    sql_incremental: str | None = None

    @property
    def before(self) -> tuple[str, ...]:
        """The joints that must be there before it runs."""
        return self.inputs + self.judged_with


@dataclass(frozen=True, slots=True)
class Materialization:
    """A joint stored between groups: why, and after which groups it may go."""

    joint: str
    reason: str
    evict_after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineBoundary:
    """How the rows of ``joint`` cross from the group that computes them to one that reads them."""

    joint: str
    producer: str
    consumer: str
    engines: tuple[str, str]
    method: str


@dataclass(frozen=True, kw_only=True)
class CompiledAssembly:
    """The immutable plan of a project under one profile.

    Where ``success`` is false, ``errors`` say why and there are no groups. ``default_engine`` is that of the profile,
    None where it names none.
    """

    profile: str
    joints: tuple[CompiledJoint, ...] = ()
    fused_groups: tuple[FusedGroup, ...] = ()
    execution_order: tuple[str, ...] = ()
    waves: tuple[tuple[str, ...], ...] = ()
    materializations: tuple[Materialization, ...] = ()
    engine_boundaries: tuple[EngineBoundary, ...] = ()
    catalogs: tuple[CatalogSpec, ...] = ()
    engines: tuple[EngineSpec, ...] = ()
    default_engine: str | None = None
    workspace: str = ""
    dagster: DagsterSettings = DagsterSettings()
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def success(self) -> bool:
        """Whether the project compiled."""
        return not self.errors

    def joint(self, name: str) -> CompiledJoint:
        """The joint of that name; raises RVT-306."""
        found = self._joints_by_name.get(name)
        if found is None:
            raise RivetError("RVT-306", f"no joint is named '{name}'")
        return found

    def group(self, name: str) -> FusedGroup:
        """The group of that name; raises KeyError."""
        return self._groups_by_name[name]

    def shows_row_values(self, group: str) -> bool:
        """Whether what is told of a group as a whole may hold values of rows: none of its joints forbids it."""
        return all(self.joint(name).row_values for name in self.group(group).joints)

    def consumers(self, name: str) -> tuple[str, ...]:
        """The joints that read ``name``."""
        return self._consumers_by_name.get(name, ())

    @cached_property
    def _joints_by_name(self) -> dict[str, CompiledJoint]:
        return {joint.name: joint for joint in self.joints}

    @cached_property
    def _groups_by_name(self) -> dict[str, FusedGroup]:
        return {group.name: group for group in self.fused_groups}

    @cached_property
    def _consumers_by_name(self) -> dict[str, tuple[str, ...]]:
        readers: dict[str, list[str]] = {}
        for joint in self.joints:
            for name in joint.upstream:
                readers.setdefault(name, []).append(joint.name)
        return {name: tuple(found) for name, found in readers.items()}

    def raise_errors(self) -> CompiledAssembly:
        """The plan itself, or one RivetError with every error."""
        if self.errors:
            raise RivetError.of(self.errors)
        return self

    @property
    def holds_secrets(self) -> bool:
        """Whether a catalog or an engine has a secret that is written out instead of as ``${VAR}``."""
        declared = [spec.options for spec in self.catalogs] + [spec.options for spec in self.engines]
        return any(map(literal_secrets, declared))

    def to_json(self) -> str:
        """The plan as JSON text, the same bytes for the same plan; ``from_json`` reads it.

        Secrets that the profile writes out read ``***``: where ``holds_secrets``, what is read back cannot run.
        """
        shown = self._without_secrets() if self.holds_secrets else self
        return f'{{\n  "success": {json.dumps(self.success)},{write(shown).removeprefix("{")}\n'

    def _without_secrets(self) -> CompiledAssembly:
        catalogs = tuple(replace(spec, options=masked(spec.options)) for spec in self.catalogs)
        engines = tuple(replace(spec, options=masked(spec.options)) for spec in self.engines)
        return replace(self, catalogs=catalogs, engines=engines)

    @classmethod
    def from_json(cls, text: str) -> CompiledAssembly:
        """The plan that ``to_json`` wrote."""
        data = json.loads(text)
        data.pop("success")
        plan: CompiledAssembly = read(cls, data)
        return plan
