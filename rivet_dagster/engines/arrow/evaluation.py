"""The evaluation of plain queries on Arrow rows, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rivet_dagster.engines.arrow.frames import ArrowFrame, Columns, Names, columns_of
from rivet_dagster.engines.arrow_types import arrow_type
from rivet_dagster.engines.contract import Typed
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import parse_type
from rivet_dagster.sql.plain_queries import Node, PlainQuery

_ROWS = "rivet_rows_of_group"
_MERGED = 64
"""After so many batches their groups are merged, so that memory holds the distinct groups alone."""

_SPARK = "Check it in a joint that runs on Spark or DuckDB."


def evaluate(query: PlainQuery, frame_of: Callable[[str], ArrowFrame], parameters: Mapping[str, Any]) -> ArrowFrame:
    """Return the lazy rows of a query, with ``frame_of`` the rows of a relation. Raises RVT-503."""
    if isinstance(query.source, PlainQuery):
        read = evaluate(query.source, frame_of, parameters)
    else:
        read = _ONE_ROW if query.source is None else frame_of(query.source)
    counts = bool(query.aggregates or query.keys)
    compute = _grouped if query.keys else _counted if counts else _rows

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from _limited(compute(query, batches, parameters), query.limit)
        except pa.ArrowException as error:
            raise RivetError("RVT-503", str(error)) from error

    if query.items is None:
        columns: Columns = read.columns
    else:
        nothing = pa.RecordBatch.from_pylist([], schema=read.schema)
        columns = columns_of(next(iter(run([nothing]))).schema)
    used = frozenset() if query.source is None else query.columns

    def batches(names: Names) -> Iterator[pa.RecordBatch]:
        return run(read.batches(names if query.items is None and query.where is None else used))

    return ArrowFrame(columns, batches)


_ONE_ROW = ArrowFrame((), lambda names: iter([pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))]))


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        yield batch if left is None else batch.slice(0, left)
        if left is not None:
            left -= min(left, batch.num_rows)
            if left == 0:
                return


def _rows(
    query: PlainQuery, batches: Iterable[pa.RecordBatch], parameters: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _items(query, _filtered(query, batch, parameters), parameters, {})


def _filtered(query: PlainQuery, batch: pa.RecordBatch, parameters: Mapping[str, Any]) -> pa.RecordBatch:
    if query.where is None:
        return batch
    condition = _value(query.where, batch, parameters, {})
    return batch.filter(_array(condition, batch.num_rows), null_selection_behavior="drop")


def _items(
    query: PlainQuery, batch: pa.RecordBatch, parameters: Mapping[str, Any], known: Mapping[Node, Any]
) -> pa.RecordBatch:
    if query.items is None:
        return batch
    names = [name for name, _ in query.items]
    values = [_array(_value(node, batch, parameters, known), batch.num_rows) for _, node in query.items]
    return pa.RecordBatch.from_arrays(values, names=names)


def _counted(
    query: PlainQuery, batches: Iterable[pa.RecordBatch], parameters: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Yield one row of aggregates."""
    totals: dict[Node, int | None] = {node: None if node.kind == "sum" else 0 for node in query.aggregates}
    for whole in batches:
        batch = _filtered(query, whole, parameters)
        for node in totals:
            added: int | None = batch.num_rows
            if node.kind != "count":
                value = _array(_value(node.parts[0], batch, parameters, {}), batch.num_rows)
                added = pc.sum(value.cast(pa.int64()), min_count=1 if node.kind == "sum" else 0).as_py()
            if added is not None:
                totals[node] = (totals[node] or 0) + added
    known = {node: pa.scalar(total, pa.int64()) for node, total in totals.items()}
    (one,) = _ONE_ROW.batches(None)
    yield _items(query, one, parameters, known)


def _grouped(
    query: PlainQuery, batches: Iterable[pa.RecordBatch], parameters: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Yield one row for each group, whose aggregate is the number of its rows."""
    names = [f"rivet_key_{number}" for number in range(len(query.keys))]
    parts: list[pa.Table] = []
    for whole in batches:
        batch = _filtered(query, whole, parameters)
        keys = [_key(_array(_value(key, batch, parameters, {}), batch.num_rows)) for key in query.keys]
        counted = pa.table([*keys, pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)], names=[*names, _ROWS])
        parts.append(_merged([counted], names))
        if len(parts) > _MERGED:
            parts = [_merged(parts, names)]
    if not parts:
        return
    groups = _merged(parts, names)
    known = {key: groups[name] for key, name in zip(query.keys, names, strict=True)} | {Node("count"): groups[_ROWS]}
    arrays = [_array(groups[name], groups.num_rows) for name in names]
    group = pa.RecordBatch.from_arrays(arrays, names=names)
    shown = _items(query, group, parameters, known)
    if query.having is not None:
        shown = shown.filter(_array(_value(query.having, group, parameters, known), group.num_rows))
    if query.descending is not None:
        shown = shown.take(pc.array_sort_indices(_value(query.descending, shown, {}, {}), order="descending"))
    yield shown


def _merged(parts: list[pa.Table], names: list[str]) -> pa.Table:
    table = pa.concat_tables(parts)
    summed = table.group_by(names).aggregate([(_ROWS, "sum")])
    return summed.select([*names, f"{_ROWS}_sum"]).rename_columns([*names, _ROWS])


def _key(values: Any) -> Any:
    """Return values by which rows are grouped: -0.0 is the same as 0.0."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def _array(value: Any, rows: int) -> Any:
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, rows)
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def _value(node: Node, batch: pa.RecordBatch, parameters: Mapping[str, Any], known: Mapping[Node, Any]) -> Any:
    """Return the values of an expression for the rows of a batch, or one scalar for all of them."""
    if node in known:
        return known[node]
    if node.kind == "column":
        return _column(node.value, batch)
    if node.kind in ("literal", "parameter"):
        return pa.scalar(node.value if node.kind == "literal" else _parameter(node.value, parameters))
    parts = [_value(part, batch, parameters, known) for part in node.parts]
    match node.kind:
        case "cast":
            return _cast(parts[0], node.value)
        case "in":
            return _in(parts[0], parts[1:])
        case "left":
            slice_ = pc.binary_slice if pa.types.is_binary(parts[0].type) else pc.utf8_slice_codeunits
            return slice_(parts[0], 0, parts[1].as_py())
        case "if":
            chosen = parts[1] if not pa.types.is_null(parts[1].type) else pa.scalar(None, parts[2].type)
            other = parts[2] if not pa.types.is_null(parts[2].type) else pa.scalar(None, parts[1].type)
            return pc.if_else(pc.fill_null(parts[0], False), chosen, other)
    return _FUNCTIONS[node.kind](*parts)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "is_null": pc.is_null,
    "not": pc.invert,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "greater": pc.greater,
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "greatest": pc.max_element_wise,
    "coalesce": pc.coalesce,
    "length": pc.utf8_length,
}


def _column(path: tuple[str, ...], batch: pa.RecordBatch) -> Any:
    """Return a column, or a field of it; letter case makes no difference. Raises RVT-503."""
    first, *fields = path
    matches = [index for index, name in enumerate(batch.schema.names) if name.lower() == first.lower()]
    if len(matches) != 1:
        why = "is ambiguous" if matches else "does not exist"
        raise RivetError("RVT-503", f"the column {'.'.join(path)} {why}")
    value = batch.column(matches[0])
    for name in fields:
        kinds = list(value.type.fields) if pa.types.is_struct(value.type) else []
        index = next((index for index, kind in enumerate(kinds) if kind.name.lower() == name.lower()), None)
        if index is None:
            raise RivetError("RVT-503", f"the column {'.'.join(path)} does not exist")
        value = pc.struct_field(value, [index])
    return value


def _parameter(name: str, parameters: Mapping[str, Any]) -> Any:
    if name not in parameters:
        raise RivetError("RVT-503", f"the query has a parameter :{name}, which has no value")
    value = parameters[name]
    return value.value if isinstance(value, Typed) else value


def _cast(value: Any, type_: str) -> Any:
    to = arrow_type(parse_type(type_))
    if pa.types.is_nested(value.type) and pa.types.is_string(to):  # of samples, which a person looks at
        return pa.array([None if one is None else str(one) for one in value.to_pylist()], to)
    return value.cast(to)


def _in(value: Any, accepted: list[Any]) -> Any:
    """Return whether values are among ``accepted``, without a conversion that Spark may do otherwise. Raises RVT-503.

    What is true of no value is NULL for NULL.
    """
    type_ = value.type
    numbers = pa.types.is_integer(type_) or pa.types.is_float64(type_)
    result = None
    for one in accepted:
        same = (
            (pa.types.is_string(one.type) and pa.types.is_string(type_))
            or (pa.types.is_boolean(one.type) and pa.types.is_boolean(type_))
            or (pa.types.is_integer(one.type) and numbers)
            or (pa.types.is_float64(one.type) and pa.types.is_float64(type_))
        )
        if not same:
            message = f"a column of the type {type_} is not compared with the value {one.as_py()!r} on this engine"
            raise RivetError("RVT-503", message, remediation=_SPARK)
        if pa.types.is_integer(type_):
            equal = pc.equal(value.cast(pa.int64()), one)
        else:
            equal = pc.equal(value, one.cast(type_))
        result = equal if result is None else pc.or_kleene(result, equal)
    return result
