"""The reasons for the boundaries of groups: why a joint is not fused with those that read it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from rivet_dagster.compiler.fusion import ARROW_PASSTHROUGH
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint, EngineBoundary, Materialization
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE

REASONS = {
    "eager": "declared eager",
    "python_boundary": "next to Python",
    "assertion_boundary": "it has checks",
    "multi_consumer": "read by several joints",
    "non_deterministic": "read twice, and not the same each time",
    "engine_change": "read by another engine",
    "dialect_change": "read by a query in another SQL",
    "partition_boundary": "its reader has other partitions",
    "error_boundary": "its reader has another `on_error`",
    "table": "published as a table of its own",
    "depth": "the query would nest too deeply",
}
"""The reasons for which joints are stored, in a few words."""


class Boundaries:
    """The reasons for the boundaries of a plan's groups, with the joints and engines that they are about."""

    def __init__(self, assembly: CompiledAssembly) -> None:
        self._assembly = assembly
        self._stored = {stored.joint: stored for stored in assembly.materializations}
        self._known: dict[str, str] = {}

    def reason(self, exit_: str) -> str:
        """Return why the exit of a group is not fused with a joint that reads it, or why nothing follows it."""
        if exit_ not in self._known:
            self._known[exit_] = self._reason(exit_)
        return self._known[exit_]

    def _reason(self, exit_: str) -> str:
        joint = self._assembly.joint(exit_)
        if joint.type == SOURCE:
            return self._of_source(joint)
        if exit_ in self._stored:
            return self._of_stored(joint, self._stored[exit_])
        if joint.type == SINK:
            return "it is a sink"
        target = self._assembly.target(exit_)
        if target is not None and target.declared and exit_ not in self._judges:
            return REASONS["table"]
        if exit_ in self._judges:
            return f"only {_checks_of(self._judges[exit_])}"
        return "no joint reads it"

    def crossing(self, name: str, group: str) -> str:
        """Return how rows get from one engine to another, for a group that reads a joint; empty within one engine."""
        edge = self._crossings.get((name, group))
        if edge is None:
            return ""
        how = "as Arrow rows" if edge.method == ARROW_PASSTHROUGH else "read in place"
        return f"from the engine {edge.engines[0]}, {how}"

    def _of_source(self, joint: CompiledJoint) -> str:
        """Return why a source is a group of its own."""
        readers = self._readers(joint.name)
        groups = {each.group for each in readers} | {self._assembly.joint(j).group for j in self._judged_by(joint.name)}
        if joint.checks:
            return REASONS["assertion_boundary"]
        if len(groups) > 1:
            return f"{len(groups)} groups read it"
        if not groups:
            return "no joint reads it"
        return (
            _read_by_python(readers)
            or _read_by_other_engine(joint, readers)
            or f"{_names(each.name for each in readers)} has other partitions"
        )

    def _of_stored(self, joint: CompiledJoint, stored: Materialization) -> str:
        readers = self._assembly.consumers(joint.name)
        match stored.reason:
            case "python_boundary":
                return "it is a Python function" if joint.type == PYTHON else _read_by_python(self._readers(joint.name))
            case "multi_consumer" if len(readers) > 1:
                return f"{len(readers)} joints read it"
            case "multi_consumer" if joint.name in self._judges:
                return f"{_checks_of(self._judges[joint.name])}, too"
            case "engine_change":
                return _read_by_other_engine(joint, self._readers(joint.name))
            case "partition_boundary" | "error_boundary":
                return REASONS[stored.reason].replace("its reader has", f"{_names(readers)} has")
        return REASONS.get(stored.reason, stored.reason)

    def _readers(self, name: str) -> list[CompiledJoint]:
        return [self._assembly.joint(reader) for reader in self._assembly.consumers(name)]

    def _judged_by(self, name: str) -> list[str]:
        return self._judges.get(name, [])

    @cached_property
    def _judges(self) -> dict[str, list[str]]:
        """The joints whose checks read a joint, by its name."""
        judges: dict[str, list[str]] = {}
        for joint in (joint for joint in self._assembly.joints if joint.checks):
            for read in sorted({name for check in joint.checks for name in check.reads}):
                judges.setdefault(read, []).append(joint.name)
        return judges

    @cached_property
    def _crossings(self) -> dict[tuple[str, str], EngineBoundary]:
        """The boundaries that rows cross from one engine to another, or as Arrow."""
        return {
            (edge.joint, edge.consumer): edge
            for edge in self._assembly.engine_boundaries
            if edge.engines[0] != edge.engines[1] or edge.method == ARROW_PASSTHROUGH
        }


def _read_by_python(readers: Iterable[CompiledJoint]) -> str:
    python = [each.name for each in readers if each.type == PYTHON]
    return f"the Python function {_names(python)} reads it" if python else ""


def _read_by_other_engine(joint: CompiledJoint, readers: Iterable[CompiledJoint]) -> str:
    others = [each for each in readers if each.engine != joint.engine]
    return f"{others[0].name} reads it on the engine {others[0].engine}" if others else ""


def _checks_of(judges: Iterable[str]) -> str:
    return f"checks of {_names(judges)} read it"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)
