"""A source's inline transforms, applied to a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.balance import in_parentheses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def projected(frame: DataFrame, projection: Projection) -> DataFrame:
    """Apply the filter, then the column expressions, then the limit."""
    if projection.filter is not None:
        frame = frame.where(projection.filter)
    if projection.columns:
        frame = frame.selectExpr(*(_selected(name, expression) for name, expression in projection.columns))
    return frame if projection.limit is None else frame.limit(projection.limit)


def quoted(name: str) -> str:
    """Return the name as a quoted identifier.

    >>> quoted("unit price")
    '`unit price`'
    """
    return "`" + name.replace("`", "``") + "`"


def _selected(name: str, expression: str | None) -> str:
    return f"{in_parentheses(expression)} AS {quoted(name)}" if expression else quoted(name)
