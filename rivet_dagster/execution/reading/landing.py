"""Landing zones outside of a publishing run: who has read what of them, and all files that are there."""

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
"""What a table has consumed that has never been published."""


def landing_zone(runtime: Runtime, source: SourceJoint) -> LandingZone:
    """The zone of a source that is one."""
    return capable(runtime.catalog(source.catalog), HasLandingZones).landing_zone(source.table, source.options)


def all_files(runtime: Runtime, source: SourceJoint) -> Files:
    """All files that are there now, read or not; no rows of the columns last read where there is none.

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
    """A short text that changes when a file comes, goes or is written again."""
    return hashlib.sha256(repr(files).encode()).hexdigest()[:16]


def landing_sources(assembly: CompiledAssembly, group: FusedGroup) -> list[SourceJoint]:
    """The landing zones that the group's query reads, by name."""
    upstream = {name for joint in group.joints for name in assembly.joint(joint).upstream}
    read = [assembly.joint(name) for name in sorted(upstream)]
    return [joint for joint in read if isinstance(joint, SourceJoint) and joint.landing is not None]


def consumed(runtime: Runtime, source: SourceJoint) -> list[ConsumedFiles]:
    """What each of the readers has consumed, as its published version tells."""
    exits = {runtime.assembly.joint(reader).group for reader in runtime.assembly.consumers(source.name)}
    versions = [last_version(runtime, runtime.assembly.joint(name)) for name in sorted(exits)]
    return [version.landed.get(source.name, NOTHING_CONSUMED) if version else NOTHING_CONSUMED for version in versions]


def last_version(runtime: Runtime, joint: CompiledJoint) -> Published | None:
    """What is published of a stored joint."""
    target = runtime.assembly.target(joint.name)
    return runtime.target_catalog(target.catalog).current(target.table) if target is not None else None


def with_schema(relation: Files, schema: str | None, source: SourceJoint) -> Files:
    """The relation with that option. Raises RVT-403 where there is no ``schema``."""
    if schema is None:
        message = f"{source.catalog}.{source.table} holds no file, and nothing tells its columns yet"
        remedy = "Give the source's `options` a `schema`, or let the first file come."
        raise RivetError("RVT-403", message, remediation=remedy)
    return replace(relation, options={**relation.options, "schema": schema})
