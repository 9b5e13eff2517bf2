"""Whether all keys of a small batch have one open version, found in the files of a history without the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeGuard

from rivet_dagster.catalogs.parquet_rows import needs_no_engine
from rivet_dagster.catalogs.rewriting.key_range import WHOLE_NUMBERS
from rivet_dagster.model.relations import Files, Relation
from rivet_dagster.model.storage import Base, Statistics, StoredRows
from rivet_dagster.model.write_plan import History

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BATCH_ROWS, MOST_BASE_ROWS = 200_000, 5_000_000
"""The rows of a batch whose keys are read into the memory of this process, and those of files that are searched."""

_FIRST_YEAR = 1901
"""Times from then on are the same in all calendars that Spark has stored."""


def are_current(plan: History, base: Base, batch: StoredRows, started: datetime) -> bool:
    """Return whether each key of the batch is that of one row, and has one open version, which begins by its time.

    False also where that is not looked into: for many rows, keys other than whole numbers and texts, times of other
    types than TIMESTAMP, and storage other than local files.
    """
    earliest = _earliest(plan, batch.statistics, started)
    given = {name.lower(): kind for name, kind in batch.statistics.columns}
    spelled = {name.lower(): (name, kind) for name, kind in base.columns}
    names = list(dict.fromkeys(name.lower() for name in plan.keys))
    own = [plan.valid_from.lower(), plan.valid_to.lower()]
    if earliest is None or not all(name in spelled for name in (*names, *own)):
        return False
    if not all(_are_alike(given.get(name), spelled[name][1]) for name in names):
        return False
    if not _is_local(batch.relation) or not _is_local(base.relation) or batch.statistics.rows > MOST_BATCH_ROWS:
        return False
    import pyarrow as pa

    try:
        keys = _keys_of_batch(batch.relation, names)
        return keys is not None and _are_covered(keys, base.relation, names, own, earliest)
    except (OSError, pa.ArrowException):
        return False  # the engine, which reads the same files next, says what is wrong with them


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


def _is_local(relation: Relation) -> TypeGuard[Files]:
    return needs_no_engine(relation) and all(path.startswith("/") for path in relation.paths)


def _keys_of_batch(relation: Files, names: Sequence[str]) -> pa.Table | None:
    """Return the keys of a batch, None if any is that of several rows."""
    import pyarrow as pa

    parts: list[pa.Table] = []
    for file in _opened(relation):
        if not _has_keys(file.schema_arrow, names):
            return None
        parts += _columns(file, names)
    if not parts:
        return None
    keys = pa.concat_tables(parts)
    return keys if keys.group_by(names).aggregate([]).num_rows == keys.num_rows else None


def _are_covered(keys: pa.Table, relation: Files, names: Sequence[str], own: Sequence[str], earliest: datetime) -> bool:
    """Return whether each of the distinct ``keys`` has one open version in the files, and each begins by ``earliest``.

    ``own`` are the columns with the beginnings and the ends of versions.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    begin, end = own
    matched, wanted = [], keys[names[0]].combine_chunks()
    rows = rows_matched = 0
    for file in _opened(relation):
        rows += file.metadata.num_rows
        if rows > MOST_BASE_ROWS or not _has_keys(file.schema_arrow, names, begin):
            return False
        for table in _columns(file, (*names, *own)):
            is_wanted = pc.is_in(table[names[0]], value_set=wanted)
            matched.append(table.filter(pc.and_(pc.is_null(table[end]), is_wanted)))
            rows_matched += matched[-1].num_rows
        if rows_matched > MOST_BATCH_ROWS:
            return False
    if not rows_matched:
        return False
    found = pa.concat_tables(matched)
    if found[begin].null_count or pc.max(found[begin]).as_py() > earliest:
        return False
    # NULL is a key as any other to group_by.
    marked = [
        table.select(names).append_column(_IN_BATCH, pa.array([in_batch] * table.num_rows, pa.int64()))
        for table, in_batch in ((keys, 1), (found, 0))
    ]
    counts = pa.concat_tables(marked).group_by(names).aggregate([(_IN_BATCH, "sum"), ([], "count_all")])
    own_keys = counts.filter(pc.equal(counts[f"{_IN_BATCH}_sum"], 1))
    return bool(pc.all(pc.equal(own_keys["count_all"], 2)).as_py())


_IN_BATCH = "rivet_in_batch"


def _opened(relation: Files) -> Iterator[Any]:
    """Open the files of a relation one after the other."""
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    for path in relation.paths:
        for file in ds.dataset(path, format="parquet").files:
            with pq.ParquetFile(file) as opened:
                yield opened


def _has_keys(schema: pa.Schema, names: Sequence[str], time: str | None = None) -> bool:
    """Return whether a file has its keys as whole numbers and texts, and ``time`` as a TIMESTAMP of Spark."""
    import pyarrow as pa

    kinds = {field.name.lower(): field.type for field in schema}
    if time is not None and kinds.get(time) != pa.timestamp("us", "UTC"):
        return False
    known = [kinds.get(name, pa.null()) for name in names]
    return all(pa.types.is_string(kind) or pa.types.is_signed_integer(kind) for kind in known)


def _columns(file: Any, names: Sequence[str]) -> Iterator[pa.Table]:
    """Return columns of a file by their names in lower case, some rows at a time; whole numbers have one type."""
    import pyarrow as pa

    spelled = {name.lower(): name for name in file.schema_arrow.names}
    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[spelled[name] for name in names]):
        columns = [batch.column(spelled[name]) for name in names]
        wide = [column.cast(pa.int64()) if pa.types.is_integer(column.type) else column for column in columns]
        yield pa.Table.from_arrays(wide, list(names))


_ROWS_AT_ONCE = 262_144
