"""The rows of Parquet files as Arrow, and their number by partition, without an engine."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.relations import Files, Relation
from rivet_dagster.model.row_errors import ERROR_SCHEMA, ERROR_TYPES
from rivet_dagster.sql.partitions import rows_by_key, rows_by_moment
from rivet_dagster.sql.write_strategies.trees import Columns

if TYPE_CHECKING:
    import pyarrow as pa


SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
"""The key of a footer under which Spark writes its own schema of the file, as JSON."""


def needs_no_engine(relation: Relation | None) -> TypeGuard[Files]:
    """Return whether the rows of a relation can be read without an engine."""
    return isinstance(relation, Files) and relation.format == "parquet"


def are_local(relation: Relation | None) -> TypeGuard[Files]:
    """Return whether a relation is Parquet files of this machine."""
    return needs_no_engine(relation) and all(path.startswith("/") for path in relation.paths)


def files_of(relation: Files) -> list[str]:
    """Return the paths of the files of a relation. Raises FileNotFoundError."""
    return [file for part in _parts(relation) for file in part.files]


def columns_of(relation: Files, names: Sequence[str]) -> Iterator[pa.Table]:
    """Return columns of files, by their names in lower case, some rows at a time; NULL for those that a file lacks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in files_of(relation):
        with pq.ParquetFile(file) as opened:
            spelled = {name.lower(): name for name in opened.schema_arrow.names if name.lower() in names}
            for batch in opened.iter_batches(_FEW_COLUMNS, columns=list(spelled.values())):
                missing = pa.nulls(batch.num_rows)
                columns = [batch.column(spelled[name]) if name in spelled else missing for name in names]
                yield pa.Table.from_arrays(columns, list(names))


def greatest(batches: Iterable[pa.RecordBatch]) -> Any:
    """Return the maximum of the first column of batches; None if it has no value, NaN, which is greater than all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    most = None
    for batch in batches:
        values = batch.column(0)
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            return math.nan
        value = pc.max(values).as_py()
        most = value if most is None or (value is not None and value > most) else most
    return most


def no_errors() -> pa.RecordBatchReader:
    """Return the rows of an error table without errors: none, with its columns."""
    import pyarrow as pa

    types = {"int": pa.int32(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC")}
    columns = [(name, types[kind]) for name, kind in ERROR_TYPES.items()]
    return pa.schema(columns, {SPARK_SCHEMA: ERROR_SCHEMA}).empty_table().to_reader()


def schema(relation: Files) -> pa.Schema:
    """Return the columns, each with the wider of two types, by the footers alone. Raises FileNotFoundError."""
    return _together(_parts(relation))


def table(relation: Files) -> pa.Table:
    """Return all rows in memory; the columns of several folders are matched by name. Raises FileNotFoundError."""
    import pyarrow as pa

    tables = [part.to_table().cast(_meant(part.schema)) for part in _parts(relation)]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def batches(relation: Files) -> pa.RecordBatchReader:
    """Return all rows as ``table`` does, but a few batches in memory at a time. Raises FileNotFoundError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = _parts(relation)
    meant = _together(parts)

    def rows() -> Iterator[pa.RecordBatch]:
        # File by file: a scan of a dataset reads ahead so far that it holds most of a row group several times.
        for file in (file for part in parts for file in part.files):
            with pq.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER) as opened:
                schema = _meant(opened.schema_arrow)
                for batch in opened.iter_batches(_BATCH):
                    yield _with_columns(batch.cast(schema), meant)

    return pa.RecordBatchReader.from_batches(meant, rows())


_BATCH, _BUFFER = 32_768, 2**20
"""The rows of a batch, and the bytes of a column that are read at a time."""

_FEW_COLUMNS = 262_144
"""The rows of a batch of few columns."""


def _together(parts: Sequence[Any]) -> pa.Schema:
    """Return the columns of all ``parts``, each with the wider of two types."""
    import pyarrow as pa

    schemas = [_meant(part.schema) for part in parts]
    return schemas[0] if len(schemas) == 1 else pa.unify_schemas(schemas, promote_options="permissive")


def _with_columns(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return the batch with all ``wanted`` columns; those that it lacks are NULL."""
    import pyarrow as pa

    if batch.schema == wanted:
        return batch
    there = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in there else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _parts(relation: Files) -> list[Any]:
    import pyarrow.dataset as ds

    return [ds.dataset(path, format="parquet") for path in relation.paths]


def _meant(schema: pa.Schema) -> pa.Schema:
    """Return the schema with Spark's types: it stores day intervals as integers, and their type in the metadata."""
    import pyarrow as pa

    noted = (schema.metadata or {}).get(SPARK_SCHEMA)
    if noted is None or b"interval day" not in noted:
        return schema
    kinds = {field["name"]: field["type"] for field in json.loads(noted)["fields"]}
    spans = {name for name, kind in kinds.items() if isinstance(kind, str) and kind.startswith("interval day")}
    fields = [field.with_type(pa.duration("us")) if field.name in spans else field for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


_ROWS = "rivet_partition_rows"


def rows_by_partition(session: EngineSession, frame: Frame, columns: Columns, window: Window) -> dict[str, int]:
    """Return how many rows of ``frame``, which has ``columns``, each partition of ``window`` has. Raises RVT-322."""
    kind = partition_type(columns, window)
    session.register(_ROWS, frame)
    counts = session.rows(*rows_by_moment(_ROWS, window.partitions, kind, window))
    return rows_by_key(counts, kind, window)


def partition_type(columns: Columns, window: Window) -> str:
    """Return the type of the column by which a table with ``columns`` is partitioned. Raises RVT-322."""
    try:
        kind = window.partitions.type_in(columns)
    except ValueError as error:
        raise RivetError("RVT-322", str(error)) from error
    assert kind is not None
    return kind
