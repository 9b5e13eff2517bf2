"""Column lineage: from each output column to the columns of direct upstream joints, and through these to sources.

The columns of a published table, as its readers find them, where they are not those of the batch.

Columns and their origins, cached by query and upstream schemas, so that they are inferred only once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.joints import ColumnLineage, ColumnReference, LazyLineage
from rivet_dagster.model.joint import SINK, SOURCE, Joint
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.write_plan import History, WritePlan
from rivet_dagster.sql.write_strategies.history_columns import VERSION_COLUMNS

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
        origins: dict[tuple[str, str], ColumnReference] = {}
        for reference in upstream:
            sources = self._of(reference)
            if sources is None:
                return None
            origins |= {(source.joint, source.column): source for source in sources}
        return self._listed(origins)

    def _of(self, reference: ColumnReference) -> Sources | None:
        joint = reference.joint
        if joint in self._roots:
            joint = self._roots[joint]
        if joint not in self._of_sources:
            return self._sources[joint].get(reference.column.lower())
        source = self._references[joint, reference.column]
        return self._listed({(joint, reference.column): source})

    def _listed(self, origins: Mapping[tuple[str, str], ColumnReference]) -> Sources:
        """Return the references sorted; equal sets of columns share one tuple."""
        key = frozenset(origins)
        if key not in self._lists:
            self._lists[key] = tuple([origins[column] for column in sorted(origins)])
        return self._lists[key]


class _References(dict[tuple[str, str], ColumnReference]):
    """One object for each column of a joint."""

    def __missing__(self, column: tuple[str, str]) -> ColumnReference:
        self[column] = ColumnReference(*column)
        return self[column]


Inferred = tuple[Schema | None, Origins, str | None]
"""The columns of a joint, their origins, and the one upstream whose columns it returns unchanged, if any."""


@dataclass(frozen=True, slots=True)
class Known:
    """The columns of a joint as far as known, and their origins; ``text`` is the schema as JSON.

    If the schemas from which they are derived are ``in_conflict``, there is no schema.
    """

    schema: Schema | None = None
    columns: JointColumns = JointColumns()
    text: str = "null"
    in_conflict: bool = False


class KnownColumns:
    """The columns of the joints of one compilation; equal schemas are shared objects."""

    def __init__(self, cache: CompileCache) -> None:
        self._cache = cache
        self._schemas: dict[str, Schema | None] = {}

    def of(
        self, joint: Joint, sql: str | None, upstream: Mapping[str, Known], infer: Callable[[], Inferred | None]
    ) -> Known:
        """Return the result of ``infer`` for a source or SQL joint, cached by its query, DDL and upstream schemas.

        If ``infer`` returns None, the joint has an error, and nothing is cached.
        """
        ddl = joint.options.get("schema")
        declared = ddl if isinstance(ddl, str) else None, [name for name, _ in joint.columns], list(upstream)
        text = "\n".join((repr(declared), *[known.text for known in upstream.values()], sql or ""))
        entry = self._cache.get("columns", text)
        if entry is None:
            inferred = infer()
            if inferred is None:
                return Known()
            schema, origins, passes_on = inferred
            entry = schema_text(schema), origins, passes_on
            self._cache.put("columns", text, entry)
        return self.made_of(*entry)

    def in_table(self, joint: Joint, batch: Known) -> Known:
        """Return the columns that readers of a joint find: those of its ``batch``, or of the history it publishes."""
        names = joint.write_strategy.validity
        if not names or not joint.publishes or joint.type == SINK:  # a sink has no readers
            return batch
        if batch.schema is None:
            return Known(in_conflict=batch.in_conflict)
        origins = {name.lower(): origin for name, origin in batch.columns.origins}
        time = origins.get(str(joint.write_strategy.options.get("effective_at", "")).lower(), ())
        made = tuple((name, () if option == "is_current" else time) for option, name in names)
        schema = table_columns(joint.write_strategy.plan, batch.schema)
        return Known(schema, JointColumns((*batch.columns.origins, *made)), schema_text(schema))

    def made_of(self, text: str, origins: Origins, passes_on: str | None = None) -> Known:
        """Return the columns with this schema and these origins."""
        return Known(self._schema(text), JointColumns(origins, passes_on), text)

    def _schema(self, text: str) -> Schema | None:
        if text not in self._schemas:
            fields = json.loads(text)
            self._schemas[text] = None if fields is None else tuple(Field(name, kind) for name, kind in fields)
        return self._schemas[text]


def schema_text(schema: Schema | None) -> str:
    """Return the schema as JSON on one line."""
    return json.dumps(None if schema is None else [(field.name, field.type) for field in schema])


def may_differ(plan: WritePlan) -> bool:
    """Return whether the table may have columns that no batch has, or lack some that a batch has.

    >>> may_differ(History(keys=("id",))), may_differ(History(keys=("id",), schema_change="add"))
    (False, True)
    """
    return not plan.replaces_table and plan.schema_change != "fail"


def table_columns(plan: WritePlan, batch: Schema) -> Schema:
    """Return the columns of the table to which ``batch`` is written, in order: a history has some of its own.

    >>> [field.name for field in table_columns(History(keys=("id",)), (Field("id"), Field("name")))]
    ['id', 'name', 'valid_from', 'valid_to', 'is_current']
    """
    if not isinstance(plan, History):
        return batch
    return (*batch, *(Field(getattr(plan, field), kind) for field, kind in VERSION_COLUMNS.items()))
