"""The code versions that are recorded with a published version."""

from __future__ import annotations

from collections.abc import Mapping

from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.execution.runtime import Runtime


def run_code_versions(runtime: Runtime, group: FusedGroup, versions: Mapping[str, str]) -> dict[str, str]:
    """Return the code versions to record with a version of the group's exit.

    ``versions`` are the versions of the stored joints that were read. Of one that has been replaced since, the code is
    not known.
    """
    read = {}
    for name, version in versions.items():
        current = runtime.version_read(name)
        if current is not None and current.version == version:
            read[name] = current.code_versions
    return runtime.code_versions.of_run(group, read)
