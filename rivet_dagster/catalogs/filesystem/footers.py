"""What the footers of a version's Parquet files tell without reading its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rivet_dagster.model.storage import Statistics

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def parquet_files(folder: Path) -> list[Path]:
    """The data files of a version."""
    return sorted(path for path in folder.iterdir() if is_data(path))


def is_data(path: Path) -> bool:
    """Whether it is a data file; Spark writes checksums and marks of success beside them."""
    return not path.name.startswith(("_", "."))


def read_statistics(files: list[Path]) -> Statistics:
    """Rows, bytes and columns of the table that ``files`` (at least one) make up."""
    import pyarrow.parquet as pq

    footers = [pq.read_metadata(path) for path in files]
    rows = sum(footer.num_rows for footer in footers)
    return Statistics(rows, sum(path.stat().st_size for path in files), _columns(footers[0]))


def spark_columns(footer: Any) -> tuple[tuple[str, str], ...] | None:
    """The columns that Spark noted when it wrote the file; None in a file of another writer."""
    described = (footer.metadata or {}).get(_SPARK_SCHEMA)
    if not described:
        return None
    return tuple((field["name"], spark_type(field["type"])) for field in json.loads(described)["fields"])


def _columns(footer: Any) -> tuple[tuple[str, str], ...]:
    return spark_columns(footer) or tuple((f.name, str(f.type)) for f in footer.schema.to_arrow_schema())


def spark_type(type_: Any) -> str:
    """A type of Spark's JSON schema as Spark's SQL writes it.

    >>> spark_type("long")
    'bigint'
    >>> spark_type({"type": "array", "elementType": {"type": "struct", "fields": [{"name": "a", "type": "integer"}]}})
    'array<struct<a:int>>'
    """
    if isinstance(type_, str):
        return _SQL_NAMES.get(type_, type_)
    if type_["type"] == "array":
        return f"array<{spark_type(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"map<{spark_type(type_['keyType'])},{spark_type(type_['valueType'])}>"
    if type_["type"] == "struct":
        fields = ",".join(f"{field['name']}:{spark_type(field['type'])}" for field in type_["fields"])
        return f"struct<{fields}>"
    return spark_type(type_["sqlType"])  # a user-defined type is stored as this one
