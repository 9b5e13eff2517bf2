"""Frames: queries of the database, each with the columns that Spark would say it has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rivet_dagster.engines.duckdb.types import duckdb_type, is_the_same, quoted, spark_type
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import SparkType

_NUMBERED = re.compile(r"(.*)[_:][0-9]+", re.DOTALL)


@dataclass(frozen=True)
class DuckDBFrame:
    """A lazy result: ``rows``, the query that computes it wherever it stands, and its columns in order.

    ``names`` are those of the query, where DuckDB gives columns with the same name other ones in a subquery. It is
    ``short`` if it reads files, a table or a view, and contains no query of other frames.
    """

    rows: str
    columns: tuple[tuple[str, SparkType], ...]
    names: tuple[str, ...]
    short: bool = False


def may_be_repeated(names: list[str]) -> bool:
    """Return whether names of a subquery's columns may be those by which DuckDB tells repeated ones apart.

    >>> may_be_repeated(["a", "A_1"]), may_be_repeated(["a_1", "b"])
    (True, False)
    """
    lower = {name.lower() for name in names}
    return any(found is not None and found[1] in lower for found in map(_NUMBERED.fullmatch, lower))


def meant_types(names: list[str], types: list[Any]) -> list[SparkType]:
    """Return Spark's types for columns. Raises RVT-503 for a type that has no equivalent."""
    meant = []
    for name, type_ in zip(names, types, strict=True):
        kind = spark_type(type_)
        if kind is None:
            message = f"the column {name} is of DuckDB's type {type_}, which no table can store"
            raise RivetError("RVT-503", message, remediation="Cast it to a type that Spark has, such as STRING.")
        meant.append(kind)
    return meant


def with_meant_types(query: str, names: list[str], types: list[Any], meant: list[SparkType]) -> str:
    """Return a query with columns of exactly the types ``meant``; it is ``query`` itself where it has them already."""
    if all(is_the_same(type_, kind) for type_, kind in zip(types, meant, strict=True)):
        return query
    items = [
        quoted(name) if is_the_same(type_, kind) else f"CAST({quoted(name)} AS {duckdb_type(kind)}) AS {quoted(name)}"
        for name, type_, kind in zip(names, types, meant, strict=True)
    ]
    return f"SELECT {', '.join(items)} FROM (\n{query}\n)"
