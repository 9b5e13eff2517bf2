"""The groups of a plan whose published versions were made by other code."""

from __future__ import annotations

from rivet_dagster.execution.runtime import Runtime


def changed_groups(base: Runtime) -> tuple[str, ...]:
    """Return the groups whose published version was not made by the code of the plan, or that have none, in order.

    Rows that are only stored until they have been read (``retention: run``) are left out if nothing that changed reads
    them.
    """
    assembly, changed = base.assembly, set()
    for name in reversed(assembly.execution_order):
        target = assembly.group(name).target
        if target is None:
            continue
        base.catalog_within_reach(target.catalog)
        current = base.target_catalog(target.catalog).current(target.table)
        if current is not None:
            is_changed = not base.code_versions.match(name, current.code_versions)
        elif target.retention == "run":
            is_changed = any(assembly.joint(reader).group in changed for reader in assembly.consumers(name))
        else:
            is_changed = True
        changed |= {name} if is_changed else set()
    return tuple(name for name in assembly.execution_order if name in changed)
