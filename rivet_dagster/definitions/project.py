"""RivetProject: a compiled project, with the Dagster specs of its joints and checks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.automation import with_rules
from rivet_dagster.definitions.specs.selection import Selector, published_key, published_with_run, without_sources
from rivet_dagster.definitions.specs.translator import AssetSpecs, DagsterRivetTranslator, asset_specs
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.loading import compile_directory
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.project.environment_name import environment_name


@dataclass(frozen=True, eq=False, kw_only=True)
class RivetProject:
    """A compiled project, from which all definitions are made; ``load`` compiles one.

    ``assembly`` is its plan, ``root`` the absolute path of its directory, ``specs`` are the Dagster specs of its joints
    and checks, and ``selector`` resolves selections of them. ``selected`` are the joints that are assets here, and the
    sources whose checks are: all joints, except in a ``part``. ``io_manager_key`` is the resource key of their IO
    manager. ``problems`` are the errors of the ``dagster:`` block of rivet.yaml, without those of targets, which its
    builders raise. ``environment`` names the environment of the data in which its runs work; None is the base.

    >>> project = RivetProject.load("example_repo")
    >>> project.key("carrier_fleets")
    AssetKey(['carrier_fleets'])
    """

    assembly: CompiledAssembly
    root: Path
    specs: AssetSpecs
    selector: Selector
    selected: frozenset[str]
    io_manager_key: str
    problems: Sequence[Diagnostic]
    environment: str | None = None

    @classmethod
    def load(
        cls,
        project_dir: str | Path,
        profile: str | None = None,
        *,
        joints: Sequence[Joint] = (),
        translator: DagsterRivetTranslator | None = None,
        introspect: bool = False,
    ) -> RivetProject:
        """Compile the project in ``project_dir``; ``joints`` are added to those in files.

        With ``introspect`` the catalogs are asked for the columns of sources, for at most 10 seconds. Without it, or if
        a catalog does not answer, the columns are those of its last answer.

        The environment is that of RIVET_ENVIRONMENT, else Dagster's branch deployment, else the base.

        Raises one RivetError with all errors of the project. If only the ``dagster:`` block is wrong, its errors are
        raised later, when definitions are made, together with those of its targets.
        """
        root = Path(project_dir).resolve()
        assembly = compile_directory(root, profile, joints=joints, introspect=introspect, recall=True)
        environment = environment_name(None, os.environ)
        return cls.of(assembly, root, translator or DagsterRivetTranslator(), environment)

    @classmethod
    def of(
        cls,
        assembly: CompiledAssembly,
        root: Path,
        translator: DagsterRivetTranslator,
        environment: str | None = None,
    ) -> RivetProject:
        """Return the project of a plan. Raises the errors of the plan, as ``load`` does."""
        if not assembly.fused_groups:
            assembly.raise_errors()
        translated = asset_specs(assembly, root, translator)
        selector = Selector(translated.joints)
        specs, wrong_rules = with_rules(assembly, translated, selector)
        return cls(
            assembly=assembly,
            root=root,
            specs=specs,
            selector=selector,
            selected=frozenset(specs.keys),
            io_manager_key=assembly.dagster.io_manager_key,
            problems=(*wrong_rules, *assembly.errors),
            environment=environment,
        )

    def part(self, select: str | None = None, exclude: str | None = None) -> RivetProject:
        """Return the project with only the joints that are selected and not excluded as assets; in Dagster's syntax.

        The other joints are still known: assets depend on them, and joints of the same group are computed in one query.
        Raises RVT-115, also if no joint is selected.

        >>> sorted(RivetProject.load("example_repo").part("group:fleet", exclude='key:"carrier_fleets"').selected)
        ['aircraft_usage', 'fleet']
        """
        named = {text: set(self.select(text)) for text in (select, exclude) if text is not None}
        chosen = set(self.selected if select is None else named[select])
        if exclude is not None:
            chosen -= named[exclude]
        empty = [repr(text) for text, names in named.items() if not names]
        if empty or not chosen:
            text = " without ".join(empty or map(repr, named))
            near = "".join(self.selector.near(text) for text, names in named.items() if not names)
            raise RivetError("RVT-115", f"{text} selects nothing of this project{near}")
        return replace(self, selected=frozenset(chosen))

    @property
    def whole(self) -> RivetProject:
        """The project with all of its joints, of which this may be a part."""
        return replace(self, selected=frozenset(self.specs.keys))

    def apart(self) -> RivetProject:
        """Return the project with an IO manager under a key of its own.

        Parts of one project that are loaded separately can then be merged into one Definitions, in which two objects
        cannot have the same resource key.
        """
        return replace(self, io_manager_key=f"{self.io_manager_key}__{self.names[0]}")

    @property
    def joints(self) -> Mapping[dg.AssetKey, str]:
        """The names of the joints by asset key, in topological order, without sources that are external assets."""
        return self.specs.joints_by_key

    @property
    def names(self) -> list[str]:
        """The selected joints, in topological order."""
        return [name for name in self.specs.joints if name in self.selected]

    def spec(self, joint: str) -> dg.AssetSpec:
        """Return the asset spec of a joint.

        Raises RVT-306, also for a source that is an external asset, and the errors of the rules of the ``dagster:``
        block.
        """
        if self.problems:
            raise RivetError.of(self.problems)
        key = self.key(joint)
        if joint not in self.specs.joints:
            raise RivetError("RVT-306", f"'{joint}' is the asset {key.to_user_string()}, not one of ours")
        return self.specs.joints[joint]

    def asset_spec(self, joint: str) -> dg.AssetSpec:
        """Return the spec of an asset that is made or observed here, with the project's IO manager. Raises RVT-306.

        If it is computed from joints of its group that are not assets here, it also depends on what those read.
        """
        spec = self.spec(joint)
        behind = self._behind(joint)
        if behind:
            known = {dep.asset_key for dep in spec.deps}
            spec = spec.merge_attributes(deps=[key for key in self.keys(behind) if key not in known])
        return spec.with_io_manager_key(self.io_manager_key)

    def key(self, joint: str) -> dg.AssetKey:
        """Return the asset key of a joint; for a source that is an external asset, that asset's. Raises RVT-306."""
        return self.specs.keys[self.assembly.joint(joint).name]

    def keys(self, joints: Iterable[str]) -> list[dg.AssetKey]:
        """Return the asset keys of joints, in their order. Raises RVT-306."""
        return [self.key(joint) for joint in joints]

    def errors_key(self, joint: str) -> dg.AssetKey | None:
        """Return the asset key of the error table that is published with a joint; None if there is none."""
        spec = self.specs.errors.get(joint)
        return spec.key if spec is not None else None

    def errors_spec(self, joint: str) -> dg.AssetSpec | None:
        """Return the spec of that asset, with the project's IO manager."""
        spec = self.specs.errors.get(joint)
        return spec.with_io_manager_key(self.io_manager_key) if spec is not None else None

    @cached_property
    def with_run(self) -> tuple[str, ...]:
        """The stored joints that the last step of a run publishes, selected or not, in topological order."""
        return published_with_run(self.assembly)

    def published_key(self, joint: str) -> dg.AssetCheckKey:
        """Return the key of the check that the rows of a joint are published, whose step publishes them."""
        return published_key(self.assembly, self.specs.keys, joint)

    def check_spec(self, check: CompiledCheck, joint: str) -> dg.AssetCheckSpec:
        """Return the spec of a joint's check."""
        return self.specs.checks[joint, check.name]

    def check_key(self, check: CompiledCheck, joint: str) -> dg.AssetCheckKey:
        """Return the key of a joint's check."""
        return self.check_spec(check, joint).key

    def select(self, text: str) -> tuple[str, ...]:
        """Return the joints of ``selected``, including sources, that a selection in Dagster's syntax names, in order.

        Raises RVT-115.

        >>> RivetProject.load("example_repo").select('1+key:"carrier_fleets"')
        ('airlines', 'aircraft_usage', 'fleet', 'carrier_fleets')
        """
        return tuple(name for name in self.selector.select(text) if name in self.selected)

    def select_made(self, text: str) -> tuple[str, ...]:
        """Return the joints of ``select`` without sources. Raises RVT-115, also if there are none."""
        return without_sources(self.assembly, text, self.select(text), self.selector)

    def _behind(self, joint: str) -> list[str]:
        """Return what is read by the joints of its group that a joint is computed from and that are not assets here."""
        group = self.assembly.joint(joint).group
        behind: set[str] = set()
        ahead = [joint]
        while ahead:
            name = ahead.pop()
            for upstream in map(self.assembly.joint, self.assembly.joint(name).upstream):
                if upstream.type != SOURCE and upstream.group == group and upstream.name not in self.selected:
                    ahead.append(upstream.name)
                elif name != joint:
                    behind.add(upstream.name)
        return sorted(behind)
