"""A table to which batches are written one after another; each batch is the rows of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.results import GroupResult, Rows
from support.folders import ProjectFolder, sink

Batch = Sequence[Sequence[Any]]


class Table:
    """The table ``out``, published by a SQL joint or by a sink; ``columns`` are DDL like ``id INT, name STRING``."""

    def __init__(
        self,
        folder: ProjectFolder,
        strategy: str | Mapping[str, Any],
        columns: str,
        as_sink: bool = False,
        **fields: Any,
    ) -> None:
        self.folder = folder
        self.columns = columns
        self.as_sink = as_sink
        self.declare(strategy, **fields)

    def declare(self, strategy: str | Mapping[str, Any], **fields: Any) -> None:
        """Declare the table anew, from the next batch on."""
        self._declared = sink("out", "batch", write_strategy=strategy, **fields)

    def give(self, text: str, **fields: Any) -> None:
        """Write the query of the next batch; ``fields`` are those of the joint before a sink."""
        if self.as_sink:
            batch = {"type": "sql", "sql": text, **fields}
            self.folder.write({"sinks/out.yaml": self._declared, "joints/batch.yaml": batch})
        else:
            own = {key: value for key, value in self._declared.items() if key not in ("type", "upstream")}
            self.folder.write({"joints/out.yaml": {"type": "sql", "sql": text, **own}})

    def write(self, batch: Batch, columns: str | None = None, **options: Any) -> tuple[int, int, int, int]:
        """Write a batch, with options of ``run``; return the rows inserted, updated, deleted and in total."""
        rows = self.run(batch, columns, **options).rows
        assert rows is not None
        return counts(rows)

    def run(self, batch: Batch, columns: str | None = None, full_refresh: bool = False) -> GroupResult:
        """Write a batch."""
        self.give(query(batch, columns or self.columns))
        return self.folder.run("out", full_refresh=full_refresh)

    def refuse(self, batch: Batch, columns: str | None = None, **options: Any) -> Diagnostic:
        """Return the error of a batch, which must leave the table unchanged."""
        before = self.folder.bytes_of("out") if self.exists else None
        with pytest.raises(RivetError) as caught:
            self.run(batch, columns, **options)
        assert (self.folder.bytes_of("out") if self.exists else None) == before
        assert not [name for name in self.folder.versions("out") if name.endswith(".alive")]
        return caught.value.diagnostics[0]

    @property
    def exists(self) -> bool:
        """Return whether anything has been published."""
        return (self.folder.root / "lake/out").exists()

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows that a Parquet reader sees, in the order of their values."""
        return in_order(tuple(row.values()) for row in self.folder.table("out").to_pylist())

    @property
    def types(self) -> dict[str, str]:
        """Return the columns, in order, with their Arrow types."""
        return {field.name: str(field.type) for field in self.folder.table("out").schema}

    @property
    def files(self) -> set[int]:
        """Return what identifies the files, independently of their names and versions."""
        return {path.stat().st_ino for path in (self.folder.root / "lake/out").iterdir()}


def query(batch: Batch, columns: str) -> str:
    """Return a query for the rows of a batch with exactly these types."""
    pairs = [column.strip().split(" ", 1) for column in columns.split(", ")]
    typed = ", ".join(f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in pairs)
    names = ", ".join(f"`{name}`" for name, _ in pairs)
    rows = ", ".join(f"({', '.join(literal(value) for value in row)})" for row in batch)
    nothing = "" if batch else " WHERE FALSE"
    values = rows or f"({', '.join('NULL' for _ in pairs)})"
    return f"SELECT {typed} FROM VALUES {values} AS t({names}){nothing}"


def literal(value: Any) -> str:
    """Return a value as a literal of Spark's SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int() | Decimal():
            return str(value)
        case float():
            return f"DOUBLE('{value}')"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case dict():
            return f"map({', '.join(f'{literal(k)}, {literal(v)}' for k, v in value.items())})"
    escaped = str(value).replace("'", "\\'")
    return f"'{escaped}'"


def counts(rows: Rows) -> tuple[int, int, int, int]:
    """Return the rows inserted, updated, deleted and in total."""
    return rows.inserted, rows.updated, rows.deleted, rows.total


def in_order(rows: Any) -> list[tuple[Any, ...]]:
    """Return rows in the order of their values, NULLs first."""
    return sorted(rows, key=lambda row: [(value is not None, str(value)) for value in row])
