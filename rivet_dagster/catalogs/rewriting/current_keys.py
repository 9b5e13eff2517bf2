"""Knowledge about the keys of a small batch, by the rows of a history, without a query of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.parquet_rows import are_local, columns_of, files_of
from rivet_dagster.catalogs.rewriting.incoming import MOST_BATCH_ROWS, BatchKeys
from rivet_dagster.catalogs.rewriting.key_range import WHOLE_NUMBERS
from rivet_dagster.model.storage import Base, Statistics, StoredRows
from rivet_dagster.model.write_plan import History

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BASE_ROWS, MOST_BASE_FILES = 5_000_000, 1_000
"""The rows of versions that are searched in this process, and their files, each of which takes about a millisecond."""

_FIRST_YEAR = 1901
"""Times from then on are the same in all calendars that Spark has stored."""


@dataclass(frozen=True)
class WantedColumns:
    """The columns, in lower case, by which the keys of a batch are judged.

    The first of its rows takes effect at ``earliest``.
    """

    keys: tuple[str, ...]
    begin: str
    end: str
    earliest: datetime

    @property
    def of_versions(self) -> tuple[str, ...]:
        """The columns that are read of each version."""
        return (*self.keys, self.begin, self.end)


def wanted_columns(plan: History, base: Base, batch: StoredRows, started: datetime) -> WantedColumns | None:
    """Return the columns by which ``judge_keys`` judges a batch.

    None for many rows, keys other than whole numbers and texts, and times of other types than TIMESTAMP.
    """
    earliest = _earliest(plan, batch.statistics, started)
    given = {name.lower(): kind for name, kind in batch.statistics.columns}
    known = {name.lower(): kind for name, kind in base.columns}
    keys = tuple(dict.fromkeys(name.lower() for name in plan.keys))
    begin, end = plan.valid_from.lower(), plan.valid_to.lower()
    if earliest is None or batch.statistics.rows > MOST_BATCH_ROWS or not {*keys, begin, end} <= known.keys():
        return None
    if not all(_are_alike(given.get(name), known[name]) for name in keys):
        return None
    return WantedColumns(keys, begin, end, earliest)


def _earliest(plan: History, batch: Statistics, started: datetime) -> datetime | None:
    """Return the time of the first row of the batch, where it is known."""
    if plan.effective_at is None:
        return started
    name = plan.effective_at.lower()
    known = batch.values.get(name)
    kinds = {column.lower(): kind for column, kind in batch.columns}
    if known is None or known.nulls != 0 or kinds.get(name) != "timestamp" or not isinstance(known.min, datetime):
        return None
    return known.min if known.min.tzinfo is not None and known.min.year >= _FIRST_YEAR else None


def _are_alike(given: str | None, known: str) -> bool:
    return given == known == "string" or {given, known} <= WHOLE_NUMBERS


def keys_in_files(plan: History, base: Base, is_whole: bool, batch: StoredRows, started: datetime) -> BatchKeys:
    """Return what local Parquet files show about the keys of a batch; ANY where that is not looked into.

    ``base`` has all open versions; it ``is_whole`` if it has the closed ones, too.
    """
    wanted = wanted_columns(plan, base, batch, started)
    if wanted is None or not are_local(batch.relation) or not are_local(base.relation):
        return BatchKeys.ANY
    import pyarrow as pa

    try:
        if len(base.relation.paths) > MOST_BASE_FILES or len(files_of(base.relation)) > MOST_BASE_FILES:
            return BatchKeys.ANY
        keys, versions = columns_of(batch.relation, wanted.keys), columns_of(base.relation, wanted.of_versions)
        return judge_keys(wanted, keys, versions, is_whole)
    except (OSError, pa.ArrowException):
        return BatchKeys.ANY  # the engine, which reads the same files next, says what is wrong with them


def judge_keys(
    wanted: WantedColumns, batch: Iterable[pa.Table], versions: Iterable[pa.Table], is_whole: bool
) -> BatchKeys:
    """Return what is known about the keys of a batch by those of its rows, and by the versions of a history.

    The tables have the wanted columns. ``versions`` has all open ones; it ``is_whole`` if it has the closed ones, too.
    ANY where more versions come than are searched, or keep their values otherwise than Spark does.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = []
    for table in batch:
        if not _are_comparable(table, wanted.keys):
            return BatchKeys.ANY
        parts.append(_marked(table, wanted, in_batch=pa.repeat(True, table.num_rows)))
    if not parts:
        return BatchKeys.ANY
    given = pa.concat_tables(parts)
    names = list(wanted.keys)
    if given.group_by(names).aggregate([]).num_rows < given.num_rows:
        return BatchKeys.ANY
    first = given[names[0]].combine_chunks()
    rows, rows_found = 0, 0
    for table in versions:
        rows += table.num_rows
        if rows > MOST_BASE_ROWS or not _are_comparable(table, wanted.keys, wanted.begin, wanted.end):
            return BatchKeys.ANY
        found = table.filter(pc.is_in(_comparable(table[names[0]]), value_set=first))
        is_open = pc.is_null(found[wanted.end])
        has_begun = pc.less_equal(found[wanted.begin], pa.scalar(wanted.earliest, pa.timestamp("us", "UTC")))
        parts.append(_marked(found, wanted, is_open=is_open, is_current=pc.and_(is_open, has_begun)))
        rows_found += found.num_rows
        if rows_found > MOST_BATCH_ROWS:
            return BatchKeys.ANY
    # NULL is a key as any other to group_by.
    sums = [(mark, "sum") for mark in _MARKS]
    counts = pa.concat_tables(parts).group_by(names).aggregate([*sums, ([], "count_all")])
    return _judged(counts.filter(pc.equal(counts["in_batch_sum"], 1)), is_whole)


def _judged(keys: pa.Table, is_whole: bool) -> BatchKeys:
    """Return what is known by the number of rows, and of marks, for each key of a batch."""
    import pyarrow.compute as pc

    is_current = pc.and_(pc.equal(keys["is_open_sum"], 1), pc.equal(keys["is_current_sum"], 1))
    if pc.all(is_current).as_py():
        return BatchKeys.CURRENT
    is_new = pc.equal(keys["count_all"], 1)
    return BatchKeys.CURRENT_OR_NEW if is_whole and pc.all(pc.or_(is_current, is_new)).as_py() else BatchKeys.ANY


_MARKS = ("in_batch", "is_open", "is_current")


def _marked(table: pa.Table, wanted: WantedColumns, **marks: Any) -> pa.Table:
    """Return the keys of ``table``, of comparable types, with three marks of each row, each 0 or 1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = [_comparable(table[name]) for name in wanted.keys]
    given = [marks.get(mark, pa.repeat(False, table.num_rows)) for mark in _MARKS]
    counted = [pc.fill_null(pc.cast(values, pa.int64()), 0) for values in given]
    return pa.Table.from_arrays([*keys, *counted], [*wanted.keys, *_MARKS])


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of whole numbers, or of texts, as one type each."""
    import pyarrow as pa

    return column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.string())


def _are_comparable(table: pa.Table, keys: Sequence[str], *times: str) -> bool:
    """Return whether keys are whole numbers and texts, and ``times`` TIMESTAMPs of Spark."""
    import pyarrow as pa

    if any(table[time].type != pa.timestamp("us", "UTC") for time in times):
        return False
    kinds = [table[name].type for name in keys]
    texts = (pa.types.is_string, pa.types.is_large_string)
    return all(pa.types.is_signed_integer(kind) or any(is_text(kind) for is_text in texts) for kind in kinds)
