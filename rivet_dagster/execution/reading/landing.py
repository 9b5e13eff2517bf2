"""Landing zones: the files that each reader has consumed, and all current files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.sources import HasLandingZones, LandingZone
from rivet_dagster.compiler.joints import CompiledJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.inputs import ConsumedFiles, LandedFile, VersionPosition
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Published, forgotten
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import Append, ReplaceAll

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
    schemas = [reading.schema for reading in consumed_files_of_readers(runtime, source)]
    return with_schema(relation, next(filter(None, schemas), None), source)


def version_of(files: Sequence[LandedFile]) -> str:
    """Return a short text that changes when a file is added, removed or written again."""
    digest = hashlib.sha256(b"(")
    for number, file in enumerate(files):  # the text of them all at once may have a hundred megabytes
        digest.update(f"{', ' if number else ''}{file!r}".encode())
    digest.update(b",)" if len(files) == 1 else b")")
    return digest.hexdigest()[:16]


def landing_sources(assembly: CompiledAssembly, group: FusedGroup) -> list[SourceJoint]:
    """Return the landing zones that the group's query reads, ordered by name."""
    upstream = {name for joint in group.joints for name in assembly.joint(joint).upstream}
    read = [assembly.joint(name) for name in sorted(upstream)]
    return [joint for joint in read if isinstance(joint, SourceJoint) and joint.landing is not None]


def landing_sources_before(assembly: CompiledAssembly, group: FusedGroup) -> list[SourceJoint]:
    """Return the landing zones whose new rows reach the group, in its own query or by stored joints."""
    sources: dict[str, SourceJoint] = {}
    seen, waiting = {group.name}, [group]
    while waiting:
        each = waiting.pop()
        sources |= {source.name: source for source in landing_sources(assembly, each)}
        before = {assembly.joint(name).group for name in each.inputs} - seen
        seen |= before
        waiting += [other for other in map(assembly.group, before) if holds_new_rows(other.target)]
    return [sources[name] for name in sorted(sources)]


def consumed_files_of_readers(runtime: Runtime, source: SourceJoint) -> list[ConsumedFiles]:
    """Return for each reader, and each table that its rows end in, the files that have been published there."""
    assembly = runtime.assembly
    readers = sorted({assembly.joint(reader).group for reader in assembly.consumers(source.name)})
    return [
        consumed_by(runtime, group, source, table)
        for group in map(assembly.group, readers)
        for table in last_tables(assembly, group)
    ]


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


def holds_new_rows(target: Target | None) -> bool:
    """Return whether a table holds only the rows of its last run, which its readers must publish before the next."""
    return target is not None and isinstance(target.write, ReplaceAll)


def appends(group: FusedGroup) -> bool:
    """Return whether a table has rows twice if they are published twice."""
    return group.target is not None and isinstance(group.target.write, Append)


def last_tables(assembly: CompiledAssembly, group: FusedGroup) -> list[FusedGroup]:
    """Return the groups whose tables the new rows of ``group`` end in, ordered by name.

    That is the group itself unless others read it, and its table holds only new rows. A table with partitions does not
    count, since a run of one of them does not publish all rows; nor, beside others, one that skips empty batches, since
    no version of it says that there was one.
    """
    groups: dict[str, FusedGroup] = {}
    seen: set[str] = set()
    waiting = [group]
    while waiting:
        each = waiting.pop()
        readers = {assembly.joint(name).group for name in assembly.consumers(each.exit)} - seen
        if holds_new_rows(each.target) and assembly.consumers(each.exit):
            seen |= readers
            waiting += map(assembly.group, readers)
        elif each.target is not None and each.target.partitions is None:
            groups[each.name] = each
    tables = [groups[name] for name in sorted(groups)]
    telling = [each for each in tables if each.target is not None and each.target.on_empty != "skip"]
    return telling or tables or [group]


def consumed_by(runtime: Runtime, group: FusedGroup, source: SourceJoint, table: FusedGroup) -> ConsumedFiles:
    """Return the files of a landing zone whose rows, as ``group`` reads them, one of its last tables has published.

    Raises RVT-420 if that is not known any more.
    """
    version = last_version(runtime, runtime.assembly.joint(table.exit))
    if version is None:
        return NOTHING_CONSUMED
    if version.unknown_before is not None:
        raise forgotten(version)
    known = version.landed
    version_name = _name(group, source, table)
    if version_name in known:
        return known[version_name]
    # Joints may have been fused in another way when the table was published.
    by_plan = _names(runtime.assembly, source, table)
    others = [name for name in sorted(known) if name.split("/")[-1] == source.name and name not in by_plan]
    if others:
        return known[others[0]]
    return NOTHING_CONSUMED if table == group else _before_it_was_passed_on(runtime, group, source, version)


def _name(group: FusedGroup, source: SourceJoint, table: FusedGroup) -> str:
    """Return the name under which a version of ``table`` records the files that ``group`` has read."""
    return source.name if table == group else f"{group.exit}/{source.name}"


def _names(assembly: CompiledAssembly, source: SourceJoint, table: FusedGroup) -> set[str]:
    """Return the names under which versions of ``table`` record files of a landing zone by the plan."""
    readers = {assembly.joint(reader).group for reader in assembly.consumers(source.name)}
    groups = [group for group in map(assembly.group, readers) if table in last_tables(assembly, group)]
    return {_name(group, source, table) for group in groups}


def _before_it_was_passed_on(
    runtime: Runtime, group: FusedGroup, source: SourceJoint, version: Published
) -> ConsumedFiles:
    """Return the files that a version of release 0.2 or earlier has published, by what its reader has recorded."""
    reader = last_version(runtime, runtime.assembly.joint(group.exit))
    consumed = reader.landed.get(source.name) if reader is not None else None
    if reader is None or consumed is None:
        return NOTHING_CONSUMED
    position = version.inputs.get(group.exit)
    if isinstance(position, VersionPosition) and reader.version not in position.versions.values():
        return replace(consumed, files=())
    return consumed
