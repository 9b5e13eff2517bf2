"""How a table gets the columns of a batch: those that are staged, and the changes of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rivet_dagster.catalogs.jdbc.product import DatabaseKind, TargetTable
from rivet_dagster.catalogs.rewriting.version import table_columns
from rivet_dagster.errors import RivetError
from rivet_dagster.model.write_plan import WritePlan
from rivet_dagster.sql.database_definitions import add_column, change_type, create_table, drop_column
from rivet_dagster.sql.database_trees import Name, WrittenColumn
from rivet_dagster.sql.write_strategies.trees import Columns


@dataclass(frozen=True)
class Layout:
    """The columns that a batch is staged with, as Spark and as the database have them, and the changes of the table.

    ``changes`` are statements; those of a table that is replaced follow the removal of its rows.
    """

    spark: Columns
    columns: tuple[WrittenColumn, ...]
    changes: tuple[str, ...]

    def named(self, names: Sequence[str]) -> tuple[WrittenColumn, ...]:
        """Return the columns with these names, in any letter case. Raises RVT-513."""
        known = {column.name.lower(): column for column in self.columns}
        missing = [name for name in names if name.lower() not in known]
        if missing:
            raise RivetError("RVT-513", f"the batch has no such column: {', '.join(missing)}")
        return tuple(known[name.lower()] for name in names)


def layout_of(kind: DatabaseKind, name: Name, existing: TargetTable | None, wanted: Columns, replaces: bool) -> Layout:
    """Return how the table ``name`` gets the ``wanted`` columns of Spark, in their order.

    With ``replaces`` all of its rows are deleted before, and columns that are not wanted go. Raises RVT-422 for a type
    that the database has not, or for a column that Spark cannot read.
    """
    if existing is None:
        columns = tuple(_new(kind, column, type_, None) for column, type_ in wanted)
        made = create_table(name, [(column.name, column.type) for column in columns], kind.dialect)
        return Layout(wanted, columns, (made,))
    spelled = {column.lower(): column for column in existing.columns}
    spark, written, changes = [], [], []
    for given, type_ in wanted:
        column = spelled.get(given.lower(), given)
        of_table = _column_of_table(kind, existing, column, type_) if column in existing.columns else None
        before = existing.columns[column].written.type if column in existing.columns else None
        new = of_table or _new(kind, column, type_, before)
        spark.append((column, type_))
        written.append(new)
        if before is None:
            changes.append(add_column(name, column, new.type, kind.dialect))
        elif of_table is None:
            changes.append(change_type(name, column, new.type, kind.dialect, without_rows=replaces))
    if replaces:
        names = {column for column, _ in spark}
        dropped = [drop_column(name, column, kind.dialect) for column in existing.columns if column not in names]
        changes = dropped + changes
    return Layout(tuple(spark), tuple(written), tuple(changes))


def layout_of_batch(
    kind: DatabaseKind,
    name: Name,
    existing: TargetTable | None,
    plan: WritePlan,
    batch: Columns,
    replaces: bool,
    takes_batch: bool,
) -> Layout:
    """Return how the table ``name`` gets the columns of a batch that ``plan`` writes to it.

    With ``replaces`` all of its rows are deleted before, with ``takes_batch`` it gets the columns of the batch alone.
    Raises RVT-422, and RVT-514 for a batch that does not fit the table.
    """
    wanted = batch if existing is None or takes_batch else table_columns(plan, existing.spark_columns, batch)
    layout = layout_of(kind, name, existing, wanted, replaces)
    refuse_changes(kind, name, existing, layout)
    return layout


def refuse_changes(kind: DatabaseKind, name: Name, existing: TargetTable | None, layout: Layout) -> None:
    """Raise RVT-514 for changes of a table that the database cannot make in the transaction that publishes."""
    if existing is None or not layout.changes or kind.changes_tables_in_transactions:
        return
    before = {column.lower(): type_ for column, type_ in existing.spark_columns}
    after = {column.lower(): type_ for column, type_ in layout.spark}
    new = [f"{column} {type_}" for column, type_ in after.items() if before.get(column) != type_]
    gone = [column for column in before if column not in after]
    changes = [f"new or changed: {', '.join(new)}"] * bool(new) + [f"missing: {', '.join(gone)}"] * bool(gone)
    message = (
        f"the batch has other columns than the table {'.'.join(name)} ({'; '.join(changes)}), and the database commits "
        "a change of columns at once: it cannot be part of the transaction that publishes the rows"
    )
    remedy = "Change the table in the database (ALTER TABLE), or the joint's columns; or drop the table."
    raise RivetError("RVT-514", message, remediation=remedy)


def _column_of_table(kind: DatabaseKind, table: TargetTable, column: str, type_: str) -> WrittenColumn | None:
    """Return the column as it is, if values of Spark's type ``type_`` are read from it as they were written."""
    declared = table.columns[column].written
    if table.spark_type(column) != type_ and kind.type_of(type_) != declared.type:
        return None
    return declared


def _new(kind: DatabaseKind, name: str, type_: str, before: str | None) -> WrittenColumn:
    made = kind.type_of(type_)
    if made is None:
        message = f"the column '{name}' is of the type {type_}, which a published table cannot have"
        remedy = "Cast it to another type, such as numeric(38, 9), or publish its text: to_json(...)."
        raise RivetError("RVT-422", message, remediation=remedy)
    return kind.new_column(name, made, before)
