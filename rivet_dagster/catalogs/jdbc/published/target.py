"""A table that is written to, as the database describes it: its columns, and its unique indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Unreadable
from rivet_dagster.sql.database_trees import Name, WrittenColumn
from rivet_dagster.sql.write_strategies.trees import Columns


@dataclass(frozen=True)
class TargetColumn:
    """A column that a batch can fill: as the database has it, and Spark's type, None if Spark has none for it."""

    written: WrittenColumn
    spark_type: str | None
    unreadable: Unreadable | None = None


@dataclass(frozen=True)
class TargetTable:
    """An existing table: the columns that a batch can fill, by name, and the columns of each unique index.

    Identity and generated columns are left out: the database fills them.
    """

    name: Name
    columns: Mapping[str, TargetColumn]
    unique: frozenset[frozenset[str]]

    @property
    def spark_columns(self) -> Columns:
        """The columns with their Spark types, in order. Raises RVT-422 for one that Spark cannot read."""
        return tuple((name, self.spark_type(name)) for name in self.columns)

    def spark_type(self, name: str) -> str:
        """Return Spark's type of a column. Raises RVT-422 for one that Spark cannot read."""
        column = self.columns[name]
        if column.spark_type is not None:
            return column.spark_type
        why = column.unreadable.reason if column.unreadable is not None else "has a type that Spark has not"
        message = f"the column '{name}' of {self} {why}, so nothing can be published to it"
        raise RivetError("RVT-422", message, remediation="Have its type changed in the database.")

    def __str__(self) -> str:
        return ".".join(self.name)


def nothing_is_published_to(table: object) -> RivetError:
    """Return RVT-404 for a view, and what else has no rows of its own."""
    message = f"{table} is a view or a foreign table, to which nothing is published"
    return RivetError("RVT-404", message, remediation="Name another table in the sink's `table`.")
