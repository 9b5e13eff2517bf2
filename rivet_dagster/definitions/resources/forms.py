"""Conversion of rows to the type that the annotation of an input names."""

from __future__ import annotations

from typing import Any

from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.refs import MaterializedRef


def in_form(kind: Any, ref: MaterializedRef) -> Any:
    """Return the rows of ``ref`` as a value of the type ``kind``; ``ref`` itself for Any. Raises RVT-509 for others.

    Types are compared by name, since importing them all would be slow.
    """
    package, name = getattr(kind, "__module__", "").partition(".")[0], getattr(kind, "__name__", "")
    if kind is MaterializedRef or kind is Any or (package in ("typing", "builtins") and name in ("Any", "object")):
        return ref
    if (package, name) == ("pyarrow", "Table"):
        return ref.to_arrow()
    if (package, name) == ("pyarrow", "RecordBatchReader"):
        return ref.to_arrow_batches()
    if (package, name) == ("pandas", "DataFrame"):
        return ref.to_arrow().to_pandas()
    if (package, name) in (("polars", "DataFrame"), ("polars", "LazyFrame")):
        import polars

        frame = polars.DataFrame(ref.to_arrow())
        return frame if name == "DataFrame" else frame.lazy()
    if (package, name) == ("pyspark", "DataFrame"):
        return ref.to_spark()
    raise RivetError("RVT-509", f"'{ref.joint}' cannot be given as {package}.{name}", joint=ref.joint)
