"""The difference of two tables by DuckDB, and random pairs of tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

POINT = pa.struct([("x", pa.int32()), ("y", pa.float64())])
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "id": (pa.int32(), st.sampled_from([None, 1, 2, 3])),
    "day": (pa.string(), st.sampled_from([None, "mon", "tue"])),
    "net": (pa.float64(), st.sampled_from([None, math.nan, 0.0, -0.0, 1.5])),
    "note": (pa.string(), st.sampled_from([None, "", "a"])),
    "tags": (pa.list_(pa.float64()), st.sampled_from([None, [], [1.0, None], [math.nan], [0.0], [-0.0]])),
    "point": (POINT, st.sampled_from([None, {"x": None, "y": math.nan}, {"x": 1, "y": 0.0}, {"x": 1, "y": -0.0}])),
}
WIDER = {"id": pa.int64()}
"""Types that hold every value of the column's."""

OTHER = {"net": pa.string(), "note": pa.int32()}
"""Types that do not compare with the column's."""


@dataclass(frozen=True)
class Pair:
    """Two versions of a table, the key, and the columns that are compared."""

    old: pa.Table
    new: pa.Table
    key: tuple[str, ...]
    compared: tuple[str, ...]


@dataclass(frozen=True)
class Expected:
    """The difference by DuckDB; the rows are all of them, as often as they occur.

    ``columns`` is None where it depends on which rows of a repeated key are paired, and DuckDB orders nested values
    otherwise than Spark.
    """

    added: int
    removed: int
    changed: int
    columns: Mapping[str, int] | None
    only_new: Counter[str]
    only_old: Counter[str]


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Generate two versions with equal rows, repeated ones, and columns that only one of them has."""
    columns = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, unique=True))
    row = st.tuples(*(COLUMNS[name][1] for name in columns))
    old = draw(st.lists(row, max_size=8))
    stay = draw(st.lists(st.sampled_from(old), max_size=8)) if old else []
    new = draw(st.permutations(stay + draw(st.lists(row, max_size=4))))
    change = draw(st.sampled_from(["none", "none", "dropped", "added", "widened", "retyped"]))
    name = draw(st.sampled_from(columns))
    before, after = _table(columns, old), _table(columns, new)
    if change == "dropped" and len(columns) > 1:
        after = after.drop_columns([name])
    elif change == "added" and len(columns) > 1:
        before = before.drop_columns([name])
    elif change == "widened" and name in WIDER:
        after = _retyped(after, name, WIDER[name])
    elif change == "retyped" and name in OTHER:
        after = after.set_column(after.schema.get_field_index(name), name, pa.nulls(len(after), OTHER[name]))
    if draw(st.booleans()):
        after = after.rename_columns([column.upper() for column in after.column_names])
    lost = {column.lower() for column in {*before.column_names} ^ {c.lower() for c in after.column_names}}
    if change == "retyped" and name in OTHER:
        lost.add(name)
    key = draw(st.sampled_from([(), ("id",), ("id", "day"), ("net",), ("point",)]))
    shared = tuple(column for column in columns if column not in lost)
    return Pair(before, after, key if all(column in shared for column in key) else (), shared)


def expected(pair: Pair) -> Expected:
    """Return the difference that DuckDB finds."""
    if not pair.compared:
        more = len(pair.new) - len(pair.old)
        return Expected(
            max(more, 0), max(-more, 0), 0, {}, Counter({"[]": max(more, 0)}), Counter({"[]": max(-more, 0)})
        )
    with duckdb.connect() as connection:
        connection.register("old", pair.old)
        connection.register("new", pair.new)
        names = ", ".join(f'{_widest(column)} AS "{column}"' for column in pair.compared)
        key = [f'"{column}"' for column in pair.key]
        others = [f'"{column}"' for column in pair.compared if column not in pair.key] or key
        for version, without in (("new", "old"), ("old", "new")):
            connection.execute(
                f"CREATE TEMP TABLE only_{version} AS SELECT {names} FROM {version} EXCEPT ALL"
                f" SELECT {names} FROM {without}"
            )
        only = {v: connection.sql(f"SELECT * FROM only_{v}").to_arrow_table().to_pylist() for v in ("new", "old")}
        if not pair.key:
            counts = [len(only["new"]), len(only["old"]), 0]
            return Expected(*counts, {}, shown(only["new"]), shown(only["old"]))
        order = ", ".join(f"{column} NULLS FIRST" for column in others)
        number = f"*, 1 AS present, row_number() OVER (PARTITION BY {', '.join(key)} ORDER BY {order}) AS place"
        on = " AND ".join(f"o.{column} IS NOT DISTINCT FROM n.{column}" for column in [*key, "place"])
        differ = [
            f'count(*) FILTER (o.present = 1 AND n.present = 1 AND o."{column}" IS DISTINCT FROM n."{column}")'
            for column in pair.compared
        ]
        counted = connection.execute(
            f"WITH o AS (SELECT {number} FROM only_old), n AS (SELECT {number} FROM only_new)"
            " SELECT count(*) FILTER (o.present IS NULL), count(*) FILTER (n.present IS NULL),"
            f" count(*) FILTER (o.present = 1 AND n.present = 1), {', '.join(differ)} FROM o FULL JOIN n ON {on}"
        ).fetchone()
        assert counted is not None
        repeated = connection.execute(
            f"SELECT count(*) FROM (SELECT count(*) AS n FROM only_new GROUP BY {', '.join(key)} HAVING n > 1"
            f" UNION ALL SELECT count(*) AS n FROM only_old GROUP BY {', '.join(key)} HAVING n > 1)"
        ).fetchone()
        certain = repeated == (0,) or not {"tags", "point"}.intersection(pair.compared)
        columns = {column: n for column, n in zip(pair.compared, counted[3:], strict=True) if n}
        return Expected(*counted[:3], columns if certain else None, shown(only["new"]), shown(only["old"]))


def shown(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Return rows as texts in which equal values are the same text."""
    return Counter(repr([_plain(value) for value in row.values()]) for row in rows)


def _plain(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case list():
            return [_plain(inner) for inner in value]
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
    return value


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    values = zip(*rows, strict=True) if rows else [[] for _ in columns]
    return pa.table({name: pa.array(v, COLUMNS[name][0]) for name, v in zip(columns, values, strict=True)})


def _retyped(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))


def _widest(column: str) -> str:
    return f'"{column}"::BIGINT' if column in WIDER else f'"{column}"'
