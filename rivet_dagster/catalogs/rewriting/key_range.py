"""The range of the keys of a batch: no other rows of a table are read to find those with one of its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rivet_dagster.catalogs.rewriting.intervals import EVERYTHING, Affected, Interval, interval_of
from rivet_dagster.engines.contract import Typed
from rivet_dagster.model.storage import Statistics
from rivet_dagster.sql.partitions import Condition
from rivet_dagster.sql.write_strategies.statements import all_of, any_of, between, is_null
from rivet_dagster.sql.write_strategies.trees import Columns

WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
"""Types whose values compare with each other as they are."""
_COMPARABLE = WHOLE_NUMBERS | {"date", "string"}
"""Types whose values are in the same order in Python, in statistics and in Spark."""


def key_range(keys: Sequence[str], batch: Statistics, columns: Columns) -> Affected:
    """Return the rows of a table with these ``columns`` that may have one of the ``keys`` of a batch.

    A key of another type in the table, or of one that is not certain to be in the same order everywhere, may be any.

    >>> from rivet_dagster.model.storage import ColumnStatistics
    >>> ids = {"id": ColumnStatistics(nulls=0, min=3, max=8)}
    >>> key_range(["id"], Statistics(9, 700, (("id", "int"),), ids), [("id", "bigint")]).ranges
    ((Interval(min=3, max=8, nulls=False),),)
    """
    given = {name.lower(): kind for name, kind in batch.columns}
    known = {name.lower(): kind for name, kind in columns}
    ranges = tuple(
        interval_of(batch, key) if _are_alike(given.get(key.lower()), known.get(key.lower())) else None for key in keys
    )
    return Affected(tuple(keys), (ranges,)) if any(ranges) else EVERYTHING


def in_range(affected: Affected, columns: Columns) -> tuple[Condition | None, Mapping[str, Typed]]:
    """Return the condition that a row is in a ``key_range``, and its parameters; None where all rows are.

    >>> condition, values = in_range(Affected(("id",), ((Interval(3, 8, nulls=True),),)), [("id", "bigint")])
    >>> condition.sql("spark"), values["rivet_key_0_max"]
    ('(`id` >= :rivet_key_0_min AND `id` <= :rivet_key_0_max) OR `id` IS NULL', Typed(value=8, type='bigint'))
    """
    kinds = {name.lower(): kind for name, kind in columns}
    conditions: list[Condition] = []
    values: dict[str, Typed] = {}
    (intervals,) = affected.ranges
    for number, (key, interval) in enumerate(zip(affected.columns, intervals, strict=True)):
        if interval is None:
            continue
        least, most = f"rivet_key_{number}_min", f"rivet_key_{number}_max"
        conditions.append(_in(key, interval, least, most))
        if interval.min is not None:
            kind = kinds[key.lower()]
            values |= {least: Typed(interval.min, kind), most: Typed(interval.max, kind)}
    return all_of(*conditions), values


def _in(key: str, interval: Interval, least: str, most: str) -> Condition:
    """Return the condition that a key is in an interval, whose ends are the parameters ``least`` and ``most``."""
    if interval.min is None:
        return is_null(key)
    inside = between(key, least, most)
    return any_of(inside, is_null(key)) if interval.nulls else inside


def _are_alike(given: str | None, known: str | None) -> bool:
    """Return whether values of two types, of a batch and of a table, compare as they are."""
    return known in _COMPARABLE and (given == known or {given, known} <= WHOLE_NUMBERS)
