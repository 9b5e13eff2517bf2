"""Rows of stored joints that have been overtaken: the table that they are for has been published since."""

from __future__ import annotations

from rivet_dagster.catalogs.forgotten import forgotten
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.landing import appends, last_version
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.model.inputs import ConsumedFiles, TargetPosition


def refuse_outdated(run: ThisRun) -> None:
    """Raise RVT-405 if rows of stored joints that the run reads would be published twice, or upon another version.

    They would if they were computed upon another version of the table than the published one, by its watermark, or from
    files of landing zones that it has consumed, RVT-420 if that is not known any more. Only tables that append have
    rows twice; rows that were computed from the table's own must be published upon these.
    """
    assembly, group = run.runtime.assembly, run.group
    if run.full_refresh or not (appends(group) or _is_read(assembly, group)):
        return
    current = last_version(run.runtime, assembly.joint(group.exit))
    version = current.version if current is not None else ""
    for name, position in sorted(run.inputs.items()):
        joint, _, of = name.partition("/")
        if isinstance(position, TargetPosition) and of == group.exit and position.versions != (version,):
            raise _outdated(joint, f"{position} of '{of}', which is at {version or 'none'} now")
        if isinstance(position, ConsumedFiles) and of and appends(group) and current is not None:
            if current.unknown_before is not None:
                raise forgotten(current)
            known = current.landed[name].known if name in current.landed else frozenset()
            twice = next((file.path for file in position.files if file in known), None)
            if twice is not None:
                raise _outdated(joint, f"from {twice}, whose rows '{group.exit}' has appended since")


def _is_read(assembly: CompiledAssembly, group: FusedGroup) -> bool:
    """Return whether stored joints are computed from the rows of the group's table."""
    texts = (cte.incremental for other in assembly.fused_groups if other is not group for cte in other.ctes)
    return any(text is not None and text.this and text.sink == group.exit for text in texts)


def _outdated(joint: str, how: str) -> RivetError:
    remedy = f"Run '{joint}' again, together with what reads it."
    return RivetError("RVT-405", f"the rows of '{joint}' were computed {how}", remediation=remedy)
