"""Column lineage: from each output column to the columns of direct upstream joints, and through these to sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rivet_dagster.compiler.joints import ColumnLineage, ColumnReference
from rivet_dagster.model.joint import SOURCE, Joint

Sources = frozenset[tuple[str, str]]
"""Pairs of a source and one of its columns."""


@dataclass(frozen=True, slots=True)
class JointColumns:
    """The origins of a joint's columns, in order: columns of its direct upstream, None where not certain.

    ``passes_on`` is the one upstream whose columns the joint returns unchanged, even where they are not known.
    """

    origins: tuple[tuple[str, tuple[ColumnReference, ...] | None], ...] = ()
    passes_on: str | None = None


def trace(
    joints: Mapping[str, Joint], order: Iterable[str], columns: Mapping[str, JointColumns]
) -> dict[str, tuple[ColumnLineage, ...]]:
    """Return the lineage of each joint by name; ``order`` is topological. An uncertain column has no entry."""
    tracer = _Tracer({name: joint.type == SOURCE for name, joint in joints.items()})
    return {name: tracer.joint(name, columns[name]) for name in order}


class _Tracer:
    def __init__(self, is_source: Mapping[str, bool]) -> None:
        self._is_source = is_source
        self._lists: dict[Sources, tuple[ColumnReference, ...]] = {}
        self._roots: dict[str, str] = {}
        self._sources: dict[str, dict[str, Sources | None]] = {}

    def joint(self, name: str, made: JointColumns) -> tuple[ColumnLineage, ...]:
        if made.passes_on is not None:
            self._roots[name] = self._roots.get(made.passes_on, made.passes_on)
        traced = self._sources[name] = {}
        lineage = []
        for column, upstream in made.origins:
            sources = self._through(upstream) if upstream is not None else None
            lowered = column.lower()
            # A reference to a name that several columns share is ambiguous.
            traced[lowered] = None if lowered in traced else sources
            if upstream is not None:
                lineage.append(ColumnLineage(column, upstream, None if sources is None else self._listed(sources)))
        return tuple(lineage)

    def _through(self, upstream: tuple[ColumnReference, ...]) -> Sources | None:
        if len(upstream) == 1:
            return self._of(upstream[0].joint, upstream[0].column)
        columns: set[tuple[str, str]] = set()
        for reference in upstream:
            sources = self._of(reference.joint, reference.column)
            if sources is None:
                return None
            columns |= sources
        return frozenset(columns)

    def _of(self, joint: str, column: str) -> Sources | None:
        joint = self._roots.get(joint, joint)
        if self._is_source.get(joint):
            return frozenset({(joint, column)})
        return self._sources[joint].get(column.lower())

    def _listed(self, sources: Sources) -> tuple[ColumnReference, ...]:
        """Return the references sorted; equal sets of columns share one tuple."""
        references = self._lists.get(sources)
        if references is None:
            references = self._lists[sources] = tuple(
                [ColumnReference(joint, column) for joint, column in sorted(sources)]
            )
        return references
