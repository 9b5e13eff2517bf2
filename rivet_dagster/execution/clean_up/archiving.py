"""Moving away the files of landing zones that every reader has read and published."""

from __future__ import annotations

from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.reading.inputs import at_joint
from rivet_dagster.execution.reading.landing import consumed, landing_sources, landing_zone, last_version
from rivet_dagster.execution.runtime import Runtime


def archive_read_files(runtime: Runtime, group: FusedGroup) -> RivetError | None:
    """Archive what all readers of the group's landing zones have read, under the name of the group's version.

    Gives what could not be archived (RVT-410); the next run of a reader tries it again.
    """
    sources = [one for one in landing_sources(runtime.assembly, group) if one.landing and one.landing.archive]
    version = last_version(runtime, runtime.assembly.joint(group.exit)) if sources else None
    if version is None:
        return None
    failed: list[Diagnostic] = []
    for source in sources:
        files = frozenset.intersection(*(reading.known for reading in consumed(runtime, source)))
        try:
            landing_zone(runtime, source).archive(sorted(files), version.version)
        except RivetError as error:
            failed += at_joint(error, source).diagnostics
    return RivetError.of(failed) if failed else None
