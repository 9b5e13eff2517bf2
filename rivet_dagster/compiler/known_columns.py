"""Columns and their origins, cached by query and upstream schemas, so that they are inferred only once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.lineage import JointColumns, Origins
from rivet_dagster.compiler.table_columns import table_columns
from rivet_dagster.model.joint import SINK, Joint
from rivet_dagster.model.schema import Field, Schema

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
