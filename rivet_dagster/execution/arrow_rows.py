"""Stored rows read by this process alone, without an engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeGuard

from rivet_dagster.model.relations import Files, Relation

if TYPE_CHECKING:
    import pyarrow as pa

_NOTED = b"org.apache.spark.sql.parquet.row.metadata"


def needs_no_engine(relation: Relation | None) -> TypeGuard[Files]:
    """Whether the rows can be read here."""
    return isinstance(relation, Files) and relation.format == "parquet"


def schema(relation: Files) -> pa.Schema:
    """The columns, the wider of two types; nothing but footers is read. Raises FileNotFoundError."""
    import pyarrow as pa

    found = [_meant(part.schema) for part in _parts(relation)]
    return found[0] if len(found) == 1 else pa.unify_schemas(found, promote_options="permissive")


def table(relation: Files) -> pa.Table:
    """All rows in memory, the columns of its folders matched by name. Raises FileNotFoundError."""
    import pyarrow as pa

    found = [part.to_table().cast(_meant(part.schema)) for part in _parts(relation)]
    return found[0] if len(found) == 1 else pa.concat_tables(found, promote_options="permissive")


def batches(relation: Files) -> pa.RecordBatchReader:
    """All rows, a few batches in memory at a time where they lie in one folder. Raises FileNotFoundError."""
    import pyarrow as pa

    parts = _parts(relation)
    if len(parts) > 1:
        return table(relation).to_reader()
    meant, rows = _meant(parts[0].schema), parts[0].scanner().to_reader()
    return pa.RecordBatchReader.from_batches(meant, (batch.cast(meant) for batch in rows))


def _parts(relation: Files) -> list[Any]:
    import pyarrow.dataset as ds

    return [ds.dataset(path, format="parquet") for path in relation.paths]


def _meant(found: pa.Schema) -> pa.Schema:
    """The types that Spark meant: it stores an interval of days as a whole number, and notes beside what that is."""
    import pyarrow as pa

    noted = (found.metadata or {}).get(_NOTED)
    if noted is None or b"interval day" not in noted:
        return found
    kinds = {field["name"]: field["type"] for field in json.loads(noted)["fields"]}
    spans = {name for name, kind in kinds.items() if isinstance(kind, str) and kind.startswith("interval day")}
    fields = [field.with_type(pa.duration("us")) if field.name in spans else field for field in found]
    return pa.schema(fields, metadata=found.metadata)
