"""Archiving the files of landing zones that every reader has consumed."""

from __future__ import annotations

from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.error_location import locate_at_joint
from rivet_dagster.execution.reading.landing import consumed, landing_sources_before, landing_zone, last_version
from rivet_dagster.execution.runtime import Runtime


def archive_read_files(runtime: Runtime, group: FusedGroup) -> RivetError | None:
    """Archive the files of the landing zones before the group that all readers have consumed.

    The archive folder has the name of the group's published version. Return the error (RVT-410) for files that could
    not be archived, None if all could; the next run of a reader tries it again. A run in an environment archives none:
    the base has not read them.
    """
    if runtime.environment is not None:
        return None
    zones = landing_sources_before(runtime.assembly, group)
    sources = [source for source in zones if source.landing and source.landing.archive]
    version = last_version(runtime, runtime.assembly.joint(group.exit)) if sources else None
    if version is None:
        return None
    failed: list[Diagnostic] = []
    for source in sources:
        try:
            files = frozenset.intersection(*(reading.known for reading in consumed(runtime, source)))
            landing_zone(runtime, source).archive(sorted(files), version.version)
        except RivetError as error:
            failed += locate_at_joint(error, source).diagnostics
    return RivetError.of(failed) if failed else None
