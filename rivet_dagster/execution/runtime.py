"""Runtime: a plan's catalogs and engines, each opened in this process with its first use.

The code that versions were made by is compared with that of the plan.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.contract import Catalog, NeedsEngine
from rivet_dagster.catalogs.environments.catalog import HasEnvironments
from rivet_dagster.catalogs.external_assets import ExternalAssets
from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.compiler.fusion import ARROW_PASSTHROUGH
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.engines.contract import Engine, EngineSession, Progress, Typed
from rivet_dagster.engines.registry import open_engine
from rivet_dagster.entry_points import expand_variables
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.progress import ProgressListener
from rivet_dagster.execution.results import StagedBy, version_of
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.storage import Published
from rivet_dagster.sql.target import variable_of


class CodeVersions:
    """The code versions of a plan's joints, each alone and together with all that is upstream.

    A version records those of its group's joints and of the sources that these read, by name. Of a stored joint that
    they read it records the code version of that joint's rows as a whole, which includes all that is upstream.
    """

    def __init__(self, assembly: CompiledAssembly) -> None:
        self._assembly = assembly
        self._whole: dict[str, str] = {}
        for group in assembly.execution_order:
            for name in assembly.group(group).joints:
                joint = assembly.joint(name)
                upstream = {before: self._whole[before] for before in joint.upstream}
                self._whole[name] = _hash((joint.code_version, upstream))

    def of_run(self, group: FusedGroup, read: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Return what a version of the group's exit records; ``read`` are the records of the stored joints it read."""
        assembly = self._assembly
        versions = {name: assembly.joint(name).code_version for name in group.joints}
        for name in _read_by(assembly, group):
            if assembly.joint(name).type == SOURCE:
                versions[name] = assembly.joint(name).code_version
            else:
                versions[name] = self._whole[name] if self.match(name, read.get(name, {})) else _hash(read.get(name))
        return versions

    def match(self, joint: str, recorded: Mapping[str, str]) -> bool:
        """Return whether a version with this record has the rows that the plan's code would compute for ``joint``.

        It does not depend on how joints were fused when the version was made.
        """
        declared = self._assembly.joint(joint)
        if recorded.get(joint) == self._whole[joint]:
            return True
        return recorded.get(joint) == declared.code_version and all(
            self.match(name, recorded) for name in declared.upstream
        )


def _read_by(assembly: CompiledAssembly, group: FusedGroup) -> list[str]:
    """Return the joints outside of the group that its joints read."""
    read = {name for joint in group.joints for name in assembly.joint(joint).upstream}
    return sorted(read - set(group.joints))


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


class Runtime:
    """The catalogs and engines of a plan, and the hooks of a run; several threads may use one.

    ``connect`` holds functions that return an engine's underlying connection, by engine; other engines connect by
    themselves. ``${VAR}`` in options is expanded from ``environ`` (default: this process's environment). ``listeners``
    are told the phases of groups and the progress of writes. ``check_interrupt`` is called before each action of an
    engine, about once a second while one runs, and before a version is published; an exception that it raises stops the
    action.
    ``environment`` names the environment in which tables are written and, if they were built there, read; None is the
    base.
    ``staged`` returns what this run has staged of a joint that the last step of the run publishes.
    """

    def __init__(
        self,
        assembly: CompiledAssembly,
        root: Path,
        connect: Mapping[str, Callable[[], Any]] | None = None,
        environ: Mapping[str, str] | None = None,
        listeners: Sequence[ProgressListener] = (),
        check_interrupt: Callable[[], None] | None = None,
        environment: str | None = None,
        staged: StagedBy = lambda _: None,
    ) -> None:
        self.assembly = assembly
        self.root = root
        self.environment = environment
        self._connect = connect or {}
        self._environ = os.environ if environ is None else environ
        self._listeners = listeners
        self._check_interrupt = check_interrupt
        self._bases: dict[str, Catalog] = {}
        self._staged = staged
        self._catalogs: dict[str, Catalog] = {}
        self._engines: dict[str, Engine] = {}
        self._opening = RLock()

    def values_of(self, parameters: Collection[str]) -> dict[str, Any]:
        """Return the values of those parameters that are variables from the environment. Raises RVT-107."""
        return values_of_variables(self.assembly, parameters, self._environ)

    def catalog(self, name: str) -> Catalog:
        """Return the catalog of that name, as the environment sees it.

        Raises RVT-103, RVT-104, RVT-105, RVT-107, RVT-109, RVT-129.
        """
        with self._opening:
            if name not in self._catalogs:
                catalog = self.base_catalog(name)
                if self.environment is not None and isinstance(catalog, HasEnvironments):
                    catalog = catalog.in_environment(self.environment)
                self._catalogs[name] = catalog
            return self._catalogs[name]

    def base_catalog(self, name: str) -> Catalog:
        """Return the catalog of that name as readers of the base see it. Raises as ``catalog`` does."""
        with self._opening:
            if name not in self._bases:
                specs = {spec.name: spec for spec in self.assembly.catalogs}
                self._bases[name] = catalog = open_catalog(specs[name], self.root, self._environ)
                if isinstance(catalog, NeedsEngine):
                    catalog.attach(lambda: self._session_at_hand(name))
            return self._bases[name]

    def catalog_within_reach(self, name: str) -> Catalog:
        """Return the catalog of that name; if it needs an engine to look up its tables, one may start.

        Raises what ``catalog`` and ``engine`` do.
        """
        catalog = self.catalog(name)
        if isinstance(catalog, NeedsEngine):
            for spec in self._reaching(name)[:1]:
                self.engine(spec.name)
        return catalog

    def target_catalog(self, name: str) -> HasTargets:
        """Return the catalog of that name, which must have targets. Raises RVT-413, and as ``catalog`` does."""
        return capable(self.catalog(name), HasTargets)

    def version_read(self, joint: str) -> Published | None:
        """Return the version of a stored joint that this run reads: the one that it has staged, else the published one.

        None if there is none, or if the joint is not stored. Raises RVT-418 if the staged one has been swept.
        """
        target = self.assembly.target(joint)
        if target is None:
            return None
        catalog = self.target_catalog(target.catalog)
        staged = self._staged(joint) if target.with_run else None
        return catalog.current(target.table) if staged is None else version_of(catalog, staged)

    def engine(self, name: str) -> Engine:
        """Return the engine of that name, which starts with its first session.

        Raises RVT-103, RVT-104, RVT-105, RVT-107, RVT-109, RVT-126.
        """
        with self._opening:
            if name not in self._engines:
                specs = {spec.name: spec for spec in self.assembly.engines}
                self._engines[name] = self._opened(specs[name])
            return self._engines[name]

    @property
    def default_engine(self) -> Engine:
        """The default engine of joints, which is also used for values that belong to no joint."""
        return self.engine(self.assembly.default_engine or self.assembly.engines[0].name)

    @cached_property
    def external_assets(self) -> ExternalAssets:
        """The rows of external assets, which are stored in the workspace."""
        return ExternalAssets(self.target_catalog(self.assembly.workspace))

    @cached_property
    def code_versions(self) -> CodeVersions:
        """The code versions of the plan."""
        return CodeVersions(self.assembly)

    def passes_arrow(self, joint: str, group: str) -> bool:
        """Return whether, by the plan, ``group`` reads the joint's rows as Arrow rows, and not in place."""
        return (joint, group) in self._arrow_boundaries

    def check_interrupt(self) -> None:
        """Raise an exception if the run is to be stopped."""
        if self._check_interrupt is not None:
            self._check_interrupt()

    def progress_of(self, joint: str) -> Callable[[Progress], None] | None:
        """Return a listener for the progress of the write of this joint's rows; None without listeners."""

        def report(progress: Progress) -> None:
            for listener in self._listeners:
                listener.show(joint, progress)

        return report if self._listeners else None

    def enter_phase(self, group: str, phase: str) -> None:
        """Tell listeners the phase that a group enters."""
        for listener in self._listeners:
            listener.phase(group, phase)

    @cached_property
    def _arrow_boundaries(self) -> frozenset[tuple[str, str]]:
        boundaries = self.assembly.engine_boundaries
        return frozenset((edge.joint, edge.consumer) for edge in boundaries if edge.method == ARROW_PASSTHROUGH)

    def _session_at_hand(self, catalog: str) -> EngineSession:
        """Begin a session of an engine that reaches the catalog and that this runtime uses already: it starts none.

        Sensors and observations use no engine, so that no tick of theirs starts a JVM. Raises RVT-403.
        """
        for spec in self._reaching(catalog):
            if spec.name in self._engines:
                return self._engines[spec.name].session()
        message = f"only an engine can look into the catalog '{catalog}', and none is at hand"
        raise RivetError("RVT-403", message, remediation="Observe sources in catalogs that need no engine.")

    def _reaching(self, catalog: str) -> list[EngineSpec]:
        return [spec for spec in self.assembly.engines if catalog in reachable_catalogs(self.assembly, spec)]

    def _opened(self, spec: EngineSpec) -> Engine:
        needs = [self.catalog(name).session_needs(spec.type) for name in reachable_catalogs(self.assembly, spec)]
        connect = self._connect.get(spec.name)
        return open_engine(spec, self.root, self._environ, connect, self._check_interrupt, needs)


def reachable_catalogs(assembly: CompiledAssembly, engine: EngineSpec) -> list[str]:
    """Return the names of the catalogs that an engine reaches: its own, and the workspace."""
    names = {*engine.catalogs, assembly.workspace}
    return [spec.name for spec in assembly.catalogs if spec.name in names]


def values_of_variables(
    assembly: CompiledAssembly, parameters: Collection[str], environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return the values of those of ``parameters`` that are variables of the plan: texts, from now on redacted.

    Raises RVT-107.
    """
    texts = {variable_of(name): text for name, text in assembly.variables.items()}
    return {name: Typed(expand_variables(texts[name], environ), "string") for name in parameters if name in texts}
