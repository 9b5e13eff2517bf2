"""The joints that a person asks ``rivet-dagster run`` to materialize."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.joint import SOURCE


def named(names: Iterable[str], assembly: CompiledAssembly) -> set[str]:
    """Return the joints of the groups of those named, of all groups if none is. Raises RVT-306.

    With a leading + a name also stands for all groups upstream of its own.
    """
    names = list(names)
    if not names:
        return {joint.name for joint in assembly.joints}
    return {joint for text in names for joint in _joints_of(text, assembly)}


def to_materialize(names: Collection[str], assembly: CompiledAssembly) -> list[CompiledJoint]:
    """Return the joints of these names without sources, which are not materialized. Raises RVT-306 if there is none."""
    selected = [joint for joint in assembly.joints if joint.name in names and joint.type != SOURCE]
    if not selected:
        sources = f"; {', '.join(sorted(names))} can only be read" if names else ""
        raise RivetError("RVT-306", f"there is nothing to run{sources}")
    return selected


def _joints_of(text: str, assembly: CompiledAssembly) -> list[str]:
    name = text.removeprefix("+")
    known = [joint.name for joint in assembly.joints]
    if name not in known:
        raise RivetError("RVT-306", f"no joint is named '{name}'{nearest(name, known)}")
    groups = [assembly.joint(name).group]
    if text.startswith("+"):
        for group in groups:  # the list grows during the iteration
            for joint in assembly.group(group).before:
                if assembly.joint(joint).group not in groups:
                    groups.append(assembly.joint(joint).group)
    return [joint for group in groups for joint in assembly.group(group).joints]
