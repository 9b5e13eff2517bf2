"""Landing zones: the files that each reader has consumed, and all current files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.landing import HasLandingZones, LandingZone
from rivet_dagster.compiler.joints import CompiledJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.inputs import ConsumedFiles, LandedFile
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Published

NOTHING_CONSUMED = ConsumedFiles()
"""The consumed files of a table that has never been published."""


def landing_zone(runtime: Runtime, source: SourceJoint) -> LandingZone:
    """Return the landing zone of a source that is declared as one."""
    return capable(runtime.catalog(source.catalog), HasLandingZones).landing_zone(source.table, source.options)


def all_files(runtime: Runtime, source: SourceJoint) -> Files:
    """Return all current files, consumed or not; if there are none, a relation with the last known columns and no rows.

    Raises RVT-321, RVT-403.
    """
    zone = landing_zone(runtime, source)
    files = zone.files()
    relation = zone.relation(files)
    if files or relation.schema is not None:
        return relation
    schemas = [reading.schema for reading in consumed(runtime, source)]
    return with_schema(relation, next(filter(None, schemas), None), source)


def version_of(files: Sequence[LandedFile]) -> str:
    """Return a short text that changes when a file is added, removed or written again."""
    return hashlib.sha256(repr(files).encode()).hexdigest()[:16]


def landing_sources(assembly: CompiledAssembly, group: FusedGroup) -> list[SourceJoint]:
    """Return the landing zones that the group's query reads, ordered by name."""
    upstream = {name for joint in group.joints for name in assembly.joint(joint).upstream}
    read = [assembly.joint(name) for name in sorted(upstream)]
    return [joint for joint in read if isinstance(joint, SourceJoint) and joint.landing is not None]


def consumed(runtime: Runtime, source: SourceJoint) -> list[ConsumedFiles]:
    """Return for each reader the files that its published version has consumed."""
    exits = {runtime.assembly.joint(reader).group for reader in runtime.assembly.consumers(source.name)}
    versions = [last_version(runtime, runtime.assembly.joint(name)) for name in sorted(exits)]
    return [version.landed.get(source.name, NOTHING_CONSUMED) if version else NOTHING_CONSUMED for version in versions]


def last_version(runtime: Runtime, joint: CompiledJoint) -> Published | None:
    """Return the published version of a joint; None if it is not stored or not published."""
    target = runtime.assembly.target(joint.name)
    return runtime.target_catalog(target.catalog).current(target.table) if target is not None else None


def with_schema(relation: Files, schema: str | None, source: SourceJoint) -> Files:
    """Return the relation with the option ``schema``. Raises RVT-403 if it is None."""
    if schema is None:
        message = f"{source.catalog}.{source.table} holds no file, and nothing tells its columns yet"
        remedy = "Give the source's `options` a `schema`, or let the first file come."
        raise RivetError("RVT-403", message, remediation=remedy)
    return replace(relation, options={**relation.options, "schema": schema})
