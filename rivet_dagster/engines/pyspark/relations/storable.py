"""Errors for frames that cannot be stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.arrow_values import refuse_repeated, untyped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def refuse_unstorable(frame: DataFrame) -> None:
    """Raise RVT-316 for columns of the same name, RVT-503 for columns that hold nothing but NULL and have no type."""
    refuse_repeated(frame.columns)
    void = [field.name for field in frame.schema.fields if "void" in _type_names(field.dataType)]
    if void:
        raise untyped(void)  # Spark 4.1 writes such a column, but not every Parquet reader can read it


def _type_names(type_: Any) -> set[str]:
    """Return the names of a type and of all types nested in it."""
    inner = [field.dataType for field in getattr(type_, "fields", ())]
    inner += [getattr(type_, part) for part in ("elementType", "keyType", "valueType") if hasattr(type_, part)]
    return {type_.typeName()}.union(*(_type_names(part) for part in inner))
