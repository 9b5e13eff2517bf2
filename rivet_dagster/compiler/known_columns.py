"""Columns and their origins that an earlier compilation inferred already from the same query over the same schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from rivet_dagster.compiler.lineage import JointColumns
from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.model.memo import Memo
from rivet_dagster.model.schema import Field, Schema

Inferred = tuple[Schema | None, JointColumns]
"""What is known of a joint's columns, and what they are made from."""


def known_columns(
    joint: CompiledJoint, upstream: Mapping[str, Schema | None], memo: Memo, infer: Callable[[], Inferred]
) -> Inferred:
    """What ``infer`` tells of a source or SQL joint, which depends on its text, DDL and the schemas it reads alone."""
    schemas = {name: schema and [(field.name, field.type) for field in schema] for name, schema in upstream.items()}
    ddl, names = joint.options.get("schema"), [name for name, _ in joint.columns]
    text = json.dumps((joint.sql, ddl if isinstance(ddl, str) else None, names, schemas))
    found = memo.recall("columns", text)
    if found is None:
        inferred = infer()
        memo.keep("columns", text, _plain(*inferred))
        return inferred
    return _inferred(*found)


def _plain(schema: Schema | None, columns: JointColumns) -> tuple[Any, ...]:
    fields = schema and [(field.name, field.type) for field in schema]
    origins = [(column, None if upstream is None else sorted(upstream)) for column, upstream in columns.origins]
    return fields, origins, columns.passes_on


def _inferred(fields: Any, origins: Any, passes_on: str | None) -> Inferred:
    schema = None if fields is None else tuple(Field(name, kind) for name, kind in fields)
    found = tuple(
        (column, None if upstream is None else frozenset((joint, name) for joint, name in upstream))
        for column, upstream in origins
    )
    return schema, JointColumns(found, passes_on)
