"""Environments of a project: those of all catalogs that it writes to, known by one name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.catalogs.environments.catalog import HasEnvironments
from rivet_dagster.catalogs.environments.state import Environment, merged_environment
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.storage import Published


@dataclass(frozen=True)
class ProjectEnvironment:
    """An environment of the project, with the tables that were built there, as ``catalog.table``."""

    name: str
    profile: str
    created_at: str
    used_at: str
    tables: tuple[str, ...]
    merging: bool

    def to_dict(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        return {**vars(self), "tables": list(self.tables)}


def written_catalogs(assembly: CompiledAssembly) -> tuple[str, ...]:
    """Return the catalogs in which the project stores anything, the workspace among them."""
    written = {group.target.catalog for group in assembly.fused_groups if group.target is not None}
    return tuple(spec.name for spec in assembly.catalogs if spec.name in {*written, assembly.workspace})


def refuse_without_environments(runtime: Runtime, groups: Iterable[str]) -> None:
    """Raise RVT-413 if one of the groups publishes in a catalog that has no environments, and in one the run is."""
    if runtime.environment is None:
        return
    wrong: dict[str, Diagnostic] = {}
    for name in groups:
        target = runtime.assembly.group(name).target
        if target is not None and not _keeps_apart(runtime, target.catalog):
            (wrong[target.catalog],) = _mixed(runtime, f"'{name}'", target.catalog, name).diagnostics
    if wrong:
        raise RivetError.of(wrong.values())


def refuse_external_assets_without_environments(runtime: Runtime) -> None:
    """Raise RVT-413 if the run is in an environment, and the workspace has none."""
    workspace = runtime.assembly.workspace
    if runtime.environment is not None and not _keeps_apart(runtime, workspace):
        raise _mixed(runtime, "the value of the asset", workspace)


def use_environment(runtime: Runtime) -> None:
    """Make the environment of the run, if it is in one, where it does not exist. Raises RVT-415, RVT-416."""
    if runtime.environment is not None:
        for catalog in _having(runtime):
            catalog.use_environment(runtime.environment, runtime.assembly.profile)


def environments(runtime: Runtime) -> tuple[ProjectEnvironment, ...]:
    """Return the environments of the project, in order of their names."""
    by_name: dict[str, list[tuple[str, Environment]]] = {}
    for catalog in _having(runtime):
        for environment in catalog.environments():
            by_name.setdefault(environment.name, []).append((catalog.name, environment))
    return tuple(_together(name, parts) for name, parts in sorted(by_name.items()))


def require_environment(runtime: Runtime, name: str) -> None:
    """Raise RVT-415 if there is no environment of that name, or if it is over."""
    if any(catalog.has_environment(name) for catalog in _having(runtime)):
        return
    if any(catalog.is_merged(name) for catalog in _having(runtime)):
        raise merged_environment(name)
    known = [environment.name for environment in environments(runtime)]
    raise RivetError("RVT-415", f"there is no environment '{name}'{nearest(name, known)}")


def merge(runtime: Runtime, name: str) -> tuple[Published, ...]:
    """Merge an environment in all catalogs, or finish an interrupted merge; return the versions that were published.

    Nothing is published if the base of any table has moved, whatever its catalog. Raises RVT-405, RVT-415, RVT-417.
    """
    require_environment(runtime, name)
    catalogs = [catalog for catalog in _having(runtime) if catalog.has_environment(name)]
    moved = [table for catalog in catalogs for table in catalog.built(name) if table.moved]
    if moved:
        tables = ", ".join(f"{table.current.catalog}.{table.table}" for table in moved)
        raise RivetError(
            "RVT-405",
            f"since the environment '{name}' was made of it, the base has moved for {tables}",
            remediation=f"Build them upon the base as it is now: `rivet-dagster environment drop {name}`, then "
            f"`rivet-dagster run --environment {name} --changed`.",
        )
    return tuple(version for catalog in catalogs for version in catalog.merge(name))


def drop(runtime: Runtime, name: str) -> None:
    """Remove an environment from all catalogs. Raises RVT-415 if there is none, or if it has been merged."""
    dropped = [catalog.drop(name) for catalog in _having(runtime) if not catalog.is_merged(name)]
    if not any(dropped):
        require_environment(runtime, name)


def _keeps_apart(runtime: Runtime, catalog: str) -> bool:
    return _has_environments(runtime.base_catalog(catalog))


def _mixed(runtime: Runtime, what: str, catalog: str, joint: str | None = None) -> RivetError:
    type_ = runtime.base_catalog(catalog).type
    message = (
        f"{what} is published in the catalog '{catalog}', of the type {type_}, which has no environments: a run "
        f"in '{runtime.environment}' would overwrite what readers of the base see"
    )
    remedy = "Use a catalog that has them: of the type filesystem, iceberg or jdbc."
    return RivetError("RVT-413", message, joint=joint, remediation=remedy)


def _having(runtime: Runtime) -> list[HasEnvironments]:
    catalogs = (runtime.base_catalog(name) for name in written_catalogs(runtime.assembly))
    return [catalog for catalog in catalogs if _has_environments(catalog)]


def _has_environments(catalog: Catalog) -> TypeGuard[HasEnvironments]:
    return isinstance(catalog, HasEnvironments) and catalog.environment_storage is not None


def _together(name: str, parts: list[tuple[str, Environment]]) -> ProjectEnvironment:
    each = [environment for _, environment in parts]
    return ProjectEnvironment(
        name,
        each[0].profile,
        min(one.created_at for one in each),
        max(one.used_at for one in each),
        tuple(f"{catalog}.{table}" for catalog, one in parts for table in one.tables),
        any(one.merging for one in each),
    )
