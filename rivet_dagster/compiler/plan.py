"""The CompiledAssembly: the plan that a run executes, as immutable data that can be converted to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from rivet_dagster.compiler.group_query import Cte, GroupQuery
from rivet_dagster.compiler.joints import CompiledJoint as CompiledJoint
from rivet_dagster.compiler.joints import ComputedJoint, SourceJoint
from rivet_dagster.compiler.plan_json import read, write_parts
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.project import DagsterSettings
from rivet_dagster.model.target import Target
from rivet_dagster.secrets.variables import literal_secrets, mask_secrets


@dataclass(frozen=True, kw_only=True, slots=True)
class FusedGroup:
    """Joints that run as one query; ``inputs`` are the joints outside it that it reads.

    ``judged_with`` are the joints that only its checks read; ``target`` is where its exit is published, None for a
    source with a group of its own, which is read in place. ``query`` computes the exit, and is None for such a source
    and for a Python joint. ``sql`` is that query as text, or the source's projection, and ``sql_incremental`` the text
    in which all templates are incremental, None where it is the same.
    """

    name: str
    engine: str
    joints: tuple[str, ...]
    exit: str
    inputs: tuple[str, ...]
    judged_with: tuple[str, ...] = ()
    target: Target | None = None
    query: GroupQuery | None = None
    sql: str | None
    sql_incremental: str | None = None

    @property
    def ctes(self) -> tuple[Cte, ...]:
        """The SQL joints of its query, in order."""
        return self.query.ctes if self.query is not None else ()

    @property
    def before(self) -> tuple[str, ...]:
        """The joints that must be published before it runs."""
        return self.inputs + self.judged_with


@dataclass(frozen=True, slots=True)
class Materialization:
    """A joint stored between groups, the reason, and the groups after which it may be evicted."""

    joint: str
    reason: str
    evict_after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineBoundary:
    """How, and why so, the rows of ``joint`` get from the group that computes them to one that reads them."""

    joint: str
    producer: str
    consumer: str
    engines: tuple[str, str]
    method: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class CompiledAssembly:
    """The immutable plan of a project under one profile.

    If ``success`` is false, ``errors`` are the reasons and there are no groups. ``default_engine`` is the profile's,
    None where it has none. ``fail_fast`` is whether a run starts no further group after one has failed.
    ``variables`` are the texts with ``${VAR}``, unexpanded, of the templates' variables that a run binds, by name.
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
    fail_fast: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def success(self) -> bool:
        """Whether the project compiled."""
        return not self.errors

    def joint(self, name: str) -> CompiledJoint:
        """Return the joint of that name. Raise RVT-306."""
        joint = self._joints_by_name.get(name)
        if joint is None:
            raise RivetError("RVT-306", f"no joint is named '{name}'")
        return joint

    def computed(self, name: str) -> ComputedJoint:
        """Return the joint of that name, whose rows a run computes. Raise RVT-306."""
        joint = self.joint(name)
        if isinstance(joint, SourceJoint):
            raise RivetError("RVT-306", f"'{name}' is a source, which no run computes")
        return joint

    def source(self, name: str) -> SourceJoint:
        """Return the source of that name. Raise RVT-306."""
        joint = self.joint(name)
        if not isinstance(joint, SourceJoint):
            raise RivetError("RVT-306", f"'{name}' is no source")
        return joint

    def target(self, name: str) -> Target | None:
        """Return where the joint is published; None for a source, or a joint fused into another's query."""
        group = self._groups_by_name.get(name)
        return group.target if group is not None else None

    def group(self, name: str) -> FusedGroup:
        """Return the group of that name. Raise KeyError."""
        return self._groups_by_name[name]

    def shows_row_values(self, group: str) -> bool:
        """Return whether texts about a group as a whole may contain values of rows: none of its joints forbids it."""
        return all(self.joint(name).row_values for name in self.group(group).joints)

    def consumers(self, name: str) -> tuple[str, ...]:
        """Return the joints that read ``name``."""
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
        return {name: tuple(names) for name, names in readers.items()}

    def raise_errors(self) -> CompiledAssembly:
        """Return the plan itself, or raise one RivetError with all errors."""
        if self.errors:
            raise RivetError.of(self.errors)
        return self

    @property
    def holds_secrets(self) -> bool:
        """Whether a catalog or an engine has a literal secret instead of a ``${VAR}``."""
        declared = [spec.options for spec in self.catalogs] + [spec.options for spec in self.engines]
        return any(map(literal_secrets, declared))

    def to_json(self) -> str:
        """Return the plan as JSON text, byte for byte the same for the same plan; ``from_json`` parses it.

        Literal secrets of the profile are written as ``***``: a plan that ``holds_secrets`` cannot run once it is read
        back.
        """
        return "".join(self.json_parts())

    def json_parts(self) -> Iterator[str]:
        """Yield the text of ``to_json`` in parts, which takes a fraction of its memory."""
        shown = self._without_secrets() if self.holds_secrets else self
        parts = write_parts(shown)
        yield f'{{\n  "success": {json.dumps(self.success)},{next(parts).removeprefix("{")}'
        yield from parts
        yield "\n"

    def _without_secrets(self) -> CompiledAssembly:
        catalogs = tuple(replace(spec, options=mask_secrets(spec.options)) for spec in self.catalogs)
        engines = tuple(replace(spec, options=mask_secrets(spec.options)) for spec in self.engines)
        return replace(self, catalogs=catalogs, engines=engines)

    @classmethod
    def from_json(cls, text: str) -> CompiledAssembly:
        """Return the plan from text that ``to_json`` wrote."""
        data = json.loads(text)
        data.pop("success")
        plan: CompiledAssembly = read(cls, data)
        return plan
