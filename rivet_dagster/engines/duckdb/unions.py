"""The union of frames by the names of their columns."""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.engines.duckdb.frames import DuckDBFrame
from rivet_dagster.engines.duckdb.types import duckdb_type, quoted
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import VOID, SparkType, parse_type
from rivet_dagster.sql.write_strategies.alignment import wider

_REMEDY = "Cast the columns to one type."


def union_query(frames: Sequence[DuckDBFrame]) -> str:
    """Return the query of all rows, in the order of the first frame's columns. Raises RVT-503."""
    wanted = united_columns([frame.columns for frame in frames])
    parts = []
    for frame in frames:
        names = {name.lower(): name for name, _ in frame.columns}
        items = [
            f"CAST({quoted(names[name.lower()])} AS {duckdb_type(kind)}) AS {quoted(name)}" for name, kind in wanted
        ]
        parts.append(f"SELECT {', '.join(items)} FROM ({frame.rows})")
    return "\nUNION ALL\n".join(parts)


def united_columns(given: Sequence[Sequence[tuple[str, SparkType]]]) -> list[tuple[str, SparkType]]:
    """Return the columns of a union by name, in the order of the first part of the rows.

    A column has the wider of two types; Spark also unites types of which none is wider, and finds a third one for them.
    Raises RVT-503 for these, and for other names.
    """
    found = [{name.lower(): (name, kind) for name, kind in columns} for columns in given]
    for columns in found[1:]:
        if columns.keys() != found[0].keys():
            different = sorted(columns.keys() ^ found[0].keys())
            raise RivetError("RVT-503", f"only some of the rows that are united have {', '.join(different)}")
    return [(name, _common(name, [columns[name.lower()][1] for columns in found])) for name, _ in given[0]]


def _common(name: str, kinds: Sequence[SparkType]) -> SparkType:
    kinds = [kind for kind in kinds if kind != VOID] or [VOID]
    found = kinds[0]
    for kind in kinds[1:]:
        common = wider(str(found), str(kind))
        if common is None:
            message = f"the column {name} is {found} in one part of the rows, and {kind} in another"
            raise RivetError("RVT-503", message, remediation=_REMEDY)
        found = parse_type(common)
    return found
