"""Column lineage: from every output column to the joints it reads, and through them to the sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rivet_dagster.compiler.plan import ColumnLineage, ColumnReference, CompiledJoint
from rivet_dagster.model.joint import SOURCE

Reference = tuple[str, str]
"""A joint and one of its columns."""


@dataclass(frozen=True)
class JointColumns:
    """What a joint's columns are made from: columns of its direct upstream, None for what is not certain.

    ``passes_on`` is the one upstream whose columns, whatever they are, the joint gives unchanged.
    """

    origins: tuple[tuple[str, frozenset[Reference] | None], ...] = ()
    passes_on: str | None = None


def trace(
    joints: Mapping[str, CompiledJoint], order: Iterable[str], columns: Mapping[str, JointColumns]
) -> dict[str, tuple[ColumnLineage, ...]]:
    """The lineage of each joint by name; ``order`` is topological. A column that is not certain has no entry."""
    tracer = _Tracer({name: joint.type == SOURCE for name, joint in joints.items()}, columns)
    return {name: tracer.joint(name) for name in order}


class _Tracer:
    def __init__(self, is_source: Mapping[str, bool], columns: Mapping[str, JointColumns]) -> None:
        self._is_source = is_source
        self._columns = columns
        self._lists: dict[frozenset[Reference], tuple[ColumnReference, ...]] = {}
        self._roots: dict[str, str] = {}
        self._sources: dict[str, dict[str, frozenset[Reference] | None]] = {}

    def joint(self, name: str) -> tuple[ColumnLineage, ...]:
        made = self._columns.get(name, JointColumns())
        if made.passes_on is not None:
            self._roots[name] = self._roots.get(made.passes_on, made.passes_on)
        traced = self._sources[name] = {}
        found = []
        for column, upstream in made.origins:
            sources = self._through(upstream) if upstream is not None else None
            # Of columns that share a name nobody can tell which one a reader means.
            traced[column.lower()] = None if column.lower() in traced else sources
            if upstream is not None:
                found.append(self._entry(column, upstream, sources))
        return tuple(found)

    def _entry(
        self, column: str, upstream: frozenset[Reference], sources: frozenset[Reference] | None
    ) -> ColumnLineage:
        return ColumnLineage(column, self._listed(upstream), None if sources is None else self._listed(sources))

    def _through(self, upstream: frozenset[Reference]) -> frozenset[Reference] | None:
        found: list[frozenset[Reference]] = []
        for joint, column in upstream:
            sources = self._of(joint, column)
            if sources is None:
                return None
            found.append(sources)
        return found[0] if len(found) == 1 else frozenset().union(*found)

    def _of(self, joint: str, column: str) -> frozenset[Reference] | None:
        joint = self._roots.get(joint, joint)
        if self._is_source.get(joint):
            return frozenset({(joint, column)})
        return self._sources[joint].get(column.lower())

    def _listed(self, references: frozenset[Reference]) -> tuple[ColumnReference, ...]:
        """In order; the same columns are the same objects wherever they stand."""
        found = self._lists.get(references)
        if found is None:
            found = tuple(ColumnReference(joint, column) for joint, column in sorted(references))
            self._lists[references] = found
        return found
