"""Frames: queries of the database, each with the columns that Spark would say it has."""

from __future__ import annotations

import re
from collections.abc import Sequence
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

    @property
    def has_these_types(self) -> bool:
        """Whether the query has exactly the types of ``columns``: a name that is repeated cannot be cast."""
        return are_distinct(self.names)


def are_distinct(names: Sequence[str]) -> bool:
    """Return whether no two names are those of one column."""
    return len({name.lower() for name in names}) == len(names)


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


@dataclass(frozen=True)
class FoundColumns:
    """The columns that DuckDB finds a query to have; ``items`` give them these types where they have others."""

    columns: tuple[tuple[str, SparkType], ...]
    items: str | None

    @classmethod
    def of(cls, given: list[str], names: list[str], types: list[Any]) -> FoundColumns:
        """Return those that are ``given`` names by a query, and ``names`` where it is a subquery. Raises RVT-503."""
        meant = meant_types(names, types)
        casts = _casts(names, types, meant) if are_distinct(given) else None
        return cls(tuple(zip(given, meant, strict=True)), casts)

    def in_types(self, query: str) -> str:
        """Return ``query`` with columns of exactly these types; it is itself where it has them already."""
        return query if self.items is None else f"SELECT {self.items} FROM (\n{query}\n)"


def _casts(names: list[str], types: list[Any], meant: list[SparkType]) -> str | None:
    same = [is_the_same(type_, kind) for type_, kind in zip(types, meant, strict=True)]
    if all(same):
        return None
    return ", ".join(
        quoted(name) if is_meant else f"CAST({quoted(name)} AS {duckdb_type(kind)}) AS {quoted(name)}"
        for name, kind, is_meant in zip(names, meant, same, strict=True)
    )
