"""Arrow's schema of the rows of a frame, the same with every Spark."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema as Arrow has it, as in the result of ``toArrow``: a TIMESTAMP is in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # From Spark 4.2 on the time zone must be named; before, it is UTC, and the parameter does not exist.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)
