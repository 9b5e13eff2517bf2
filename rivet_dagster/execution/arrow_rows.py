"""Stored rows read by this process alone, without an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivet_dagster.model.storage import Relation

if TYPE_CHECKING:
    import pyarrow as pa


def needs_no_engine(relation: Relation) -> bool:
    """Whether the rows can be read here."""
    return relation.format == "parquet"


def schema(relation: Relation) -> pa.Schema:
    """The columns, the wider of two types; nothing but footers is read. Raises FileNotFoundError."""
    import pyarrow as pa

    found = [part.schema for part in _parts(relation)]
    return found[0] if len(found) == 1 else pa.unify_schemas(found, promote_options="permissive")


def table(relation: Relation) -> pa.Table:
    """All rows in memory, the columns of its folders matched by name. Raises FileNotFoundError."""
    import pyarrow as pa

    found = [part.to_table() for part in _parts(relation)]
    return found[0] if len(found) == 1 else pa.concat_tables(found, promote_options="permissive")


def batches(relation: Relation) -> pa.RecordBatchReader:
    """All rows, a few batches in memory at a time where they lie in one folder. Raises FileNotFoundError."""
    parts = _parts(relation)
    return parts[0].scanner().to_reader() if len(parts) == 1 else table(relation).to_reader()


def _parts(relation: Relation) -> list[Any]:
    import pyarrow.dataset as ds

    return [ds.dataset(path, format="parquet") for path in relation.paths]
