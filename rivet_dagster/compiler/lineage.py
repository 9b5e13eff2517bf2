"""Column lineage: from each output column to the columns of direct upstream joints, and through these to sources."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from rivet_dagster.compiler.joints import ColumnLineage, ColumnReference, LazyLineage
from rivet_dagster.model.joint import SOURCE, Joint

Origins = Sequence[tuple[str, Sequence[tuple[str, str]] | None]]
"""The upstream columns from which each column is computed, in order, as plain data: None where not certain."""

Sources = tuple[ColumnReference, ...]
"""Columns of sources, sorted."""


@dataclass(frozen=True, slots=True)
class JointColumns:
    """The origins of a joint's columns, in order: columns of its direct upstream, None where not certain.

    ``passes_on`` is the one upstream whose columns the joint returns unchanged, even where they are not known.
    """

    origins: Origins = ()
    passes_on: str | None = None


def trace(
    joints: Mapping[str, Joint], order: Iterable[str], columns: Mapping[str, JointColumns]
) -> dict[str, Sequence[ColumnLineage]]:
    """Return the lineage of each joint by name; ``order`` is topological. An uncertain column has no entry.

    That of all joints is traced when the first entry is looked at: much that is done with a plan needs none.
    """

    @cache
    def traced() -> Mapping[str, tuple[ColumnLineage, ...]]:
        tracer = _Tracer({name for name, joint in joints.items() if joint.type == SOURCE})
        return {name: tracer.joint(name, columns[name]) for name in order}

    return {name: LazyLineage(partial(_of, name, traced)) for name in columns}


def _of(name: str, traced: Callable[[], Mapping[str, tuple[ColumnLineage, ...]]]) -> tuple[ColumnLineage, ...]:
    return traced()[name]


class _Tracer:
    def __init__(self, of_sources: Collection[str]) -> None:
        self._of_sources = of_sources
        self._lists: dict[frozenset[tuple[str, str]], Sources] = {}
        self._roots: dict[str, str] = {}
        self._sources: dict[str, dict[str, Sources | None]] = {}
        self._references = _References()

    def joint(self, name: str, made: JointColumns) -> tuple[ColumnLineage, ...]:
        if made.passes_on is not None:
            self._roots[name] = self._roots.get(made.passes_on, made.passes_on)
        traced = self._sources[name] = {}
        lineage = []
        for column, origins in made.origins:
            upstream = None if origins is None else tuple([self._references[joint, of] for joint, of in origins])
            sources = None if upstream is None else self._through(upstream)
            lowered = column.lower()
            # A reference to a name that several columns share is ambiguous.
            traced[lowered] = None if lowered in traced else sources
            if upstream is not None:
                lineage.append(ColumnLineage(column, upstream, sources))
        return tuple(lineage)

    def _through(self, upstream: tuple[ColumnReference, ...]) -> Sources | None:
        """Return the sources of several columns together."""
        found: dict[tuple[str, str], ColumnReference] = {}
        for reference in upstream:
            sources = self._of(reference)
            if sources is None:
                return None
            found |= {(source.joint, source.column): source for source in sources}
        return self._listed(found)

    def _of(self, reference: ColumnReference) -> Sources | None:
        joint = reference.joint
        if joint in self._roots:
            joint = self._roots[joint]
        if joint not in self._of_sources:
            return self._sources[joint].get(reference.column.lower())
        source = self._references[joint, reference.column]
        return self._listed({(joint, reference.column): source})

    def _listed(self, found: Mapping[tuple[str, str], ColumnReference]) -> Sources:
        """Return the references sorted; equal sets of columns share one tuple."""
        key = frozenset(found)
        if key not in self._lists:
            self._lists[key] = tuple([found[column] for column in sorted(found)])
        return self._lists[key]


class _References(dict[tuple[str, str], ColumnReference]):
    """One object for each column of a joint."""

    def __missing__(self, column: tuple[str, str]) -> ColumnReference:
        self[column] = ColumnReference(*column)
        return self[column]
