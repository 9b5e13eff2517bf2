"""The request that a call of ``rivet-dagster run`` makes: the joints, and the partitions, that it materializes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.joint import SOURCE

if TYPE_CHECKING:
    import dagster as dg


@dataclass(frozen=True)
class RunRequest:
    """The joints to materialize, each maybe with a leading +, and how.

    ``select`` is a selection in Dagster's syntax; ``environment`` the name of ``--environment``, None without it. With
    ``full_refresh`` targets are replaced as by a first run.
    """

    joints: tuple[str, ...] = ()
    select: str | None = None
    partition: str | None = None
    partition_range: str | None = None
    changed: bool = False
    no_fail_fast: bool = False
    environment: str | None = None
    full_refresh: bool = False


def joints_of_groups(names: Iterable[str], assembly: CompiledAssembly) -> set[str]:
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


_SINGLE_TAG = "dagster/partition"
_FIRST_TAG, _LAST_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


@dataclass(frozen=True)
class Covered:
    """The partitions from ``first`` to ``last``; both None for a run without partitions."""

    first: str | None = None
    last: str | None = None

    @property
    def tags(self) -> dict[str, str]:
        """The tags of a Dagster run over these partitions."""
        if self.first is None or self.last is None:
            return {}
        if self.first == self.last:
            return {_SINGLE_TAG: self.first}
        return {_FIRST_TAG: self.first, _LAST_TAG: self.last}

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}...{self.last}"


def selected_partitions(partition: str | None, partition_range: str | None, joints: Iterable[CompiledJoint]) -> Covered:
    """Return the partitions that the options select for a run of ``joints``. Raise RVT-110 or RVT-114."""
    partitioned = [joint for joint in joints if joint.partitions is not None]
    given = partition if partition is not None else partition_range
    if not partitioned:
        if given is not None:
            raise RivetError("RVT-114", "none of these joints has partitions", remediation="Leave the option out.")
        return Covered()
    definition = _definition(partitioned)
    if given is None:
        names = ", ".join(joint.name for joint in partitioned)
        raise RivetError("RVT-114", f"{names}: say which partition to make; {_known(definition)}")
    first, last = (given, given) if partition_range is None else _ends(partition_range)
    keys = _checked((first, last), definition)
    if keys.index(first) > keys.index(last):
        raise RivetError("RVT-114", f"{first} comes after {last}")
    return Covered(first, last)


def _definition(joints: Sequence[CompiledJoint]) -> dg.PartitionsDefinition[str]:
    by_keys = {joint.partitions.keys: joint for joint in joints if joint.partitions}
    if len(by_keys) > 1:
        kinds = "; ".join(
            f"{', '.join(j.name for j in joints if j.partitions and j.partitions.keys == keys)}: {joint.partitions}"
            for keys, joint in by_keys.items()
        )
        message = f"a run has partitions of one kind, these joints have several ({kinds})"
        raise RivetError("RVT-114", message, remediation="Run those of one kind at a time.")
    (joint,) = by_keys.values()
    assert joint.partitions is not None
    # Imported only here: a run without partitions starts its engine before it imports Dagster.
    from rivet_dagster.definitions.partitions import partitions_definition

    return partitions_definition(joint.partitions)


def _ends(text: str) -> tuple[str, str]:
    first, dots, last = text.partition("...")
    if not (first and dots and last):
        raise RivetError("RVT-110", f"--partition-range is written FIRST...LAST, not '{text}'")
    return first, last


def _checked(wanted: Iterable[str], definition: dg.PartitionsDefinition[str]) -> Sequence[str]:
    """Return all current partition keys. Raise RVT-114 unless the wanted ones are among them."""
    keys = definition.get_partition_keys()
    for key in wanted:
        if key not in keys:
            raise RivetError("RVT-114", f"there is no partition '{key}'; {_known(definition)}{_near(key, keys)}")
    return keys


def _known(definition: dg.PartitionsDefinition[str]) -> str:
    keys = definition.get_partition_keys()
    if not keys:
        return "there is none yet"
    return f"the first is {keys[0]}, the last {keys[-1]}" if len(keys) > 1 else f"the only one is {keys[0]}"


def _near(key: str, keys: Sequence[str]) -> str:
    return nearest(key, keys, listed=False) if len(keys) < 1000 else ""
