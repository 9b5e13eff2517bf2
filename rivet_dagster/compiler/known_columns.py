"""Columns and their origins that an earlier compilation inferred already from the same query over the same schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.joints import ColumnReference
from rivet_dagster.compiler.lineage import JointColumns
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.schema import Field, Schema

Origins = Sequence[tuple[str, Sequence[tuple[str, str]] | None]]
"""What each column is made from, in order, as plain data: None for what is not certain."""

Inferred = tuple[Schema | None, Origins, str | None]
"""The columns of a joint, their origins, and the one upstream whose columns it passes on unchanged."""


@dataclass(frozen=True, slots=True)
class Known:
    """A joint's columns as far as they are known, and their origins; ``text`` is the schema as JSON.

    Where what it would follow from is ``in_conflict``, there is no schema.
    """

    schema: Schema | None = None
    columns: JointColumns = JointColumns()
    text: str = "null"
    in_conflict: bool = False


class KnownColumns:
    """The columns of the joints of one compilation; equal schemas and references are the same objects."""

    def __init__(self, cache: CompileCache) -> None:
        self._cache = cache
        self._schemas: dict[str, Schema | None] = {}
        self._references: dict[tuple[str, str], ColumnReference] = {}

    def of(
        self, joint: Joint, sql: str | None, upstream: Mapping[str, Known], infer: Callable[[], Inferred | None]
    ) -> Known:
        """Return the result of ``infer`` for a source or SQL joint: its query, DDL and the schemas it reads decide.

        Where that is None, the joint has an error, which is never remembered.
        """
        ddl = joint.options.get("schema")
        declared = ddl if isinstance(ddl, str) else None, [name for name, _ in joint.columns], list(upstream)
        text = "\n".join((repr(declared), *[known.text for known in upstream.values()], sql or ""))
        found = self._cache.get("columns", text)
        if found is None:
            inferred = infer()
            if inferred is None:
                return Known()
            schema, origins, passes_on = inferred
            found = schema_text(schema), origins, passes_on
            self._cache.put("columns", text, found)
        return self.made_of(*found)

    def made_of(self, text: str, origins: Origins, passes_on: str | None = None) -> Known:
        """The columns whose schema has this text."""
        listed = tuple([(name, None if found is None else self._listed(found)) for name, found in origins])
        return Known(self._schema(text), JointColumns(listed, passes_on), text)

    def _schema(self, text: str) -> Schema | None:
        if text not in self._schemas:
            fields = json.loads(text)
            self._schemas[text] = None if fields is None else tuple(Field(name, kind) for name, kind in fields)
        return self._schemas[text]

    def _listed(self, origins: Sequence[tuple[str, str]]) -> tuple[ColumnReference, ...]:
        return tuple([self._reference(joint, column) for joint, column in origins])

    def _reference(self, joint: str, column: str) -> ColumnReference:
        found = self._references.get((joint, column))
        if found is None:
            found = self._references[joint, column] = ColumnReference(joint, column)
        return found


def schema_text(schema: Schema | None) -> str:
    """The schema as JSON on one line."""
    return json.dumps(None if schema is None else [(field.name, field.type) for field in schema])
