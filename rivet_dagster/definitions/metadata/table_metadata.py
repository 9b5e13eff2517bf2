"""Table metadata of a joint: its name, and its columns with the constraints that blocking checks enforce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

from rivet_dagster.compiler.joints import ColumnLineage, ColumnReference, CompiledJoint
from rivet_dagster.model.check import AUDIT
from rivet_dagster.model.check_plan import Constraint
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.target import Target


def table_name(joint: CompiledJoint) -> str:
    """Return the name of the table of a source or a stored joint: its catalog and its table."""
    return f"{joint.catalog}.{joint.table}"


def column_schema(columns: Schema, constraints: Iterable[Constraint] = ()) -> dg.TableSchema:
    """Return the schema of a table with ``columns`` and ``constraints``; an unknown type is shown as ``?``."""
    constraints = tuple(constraints)
    filled = _lower(name for rule in constraints if rule.kind == "not_null" for name in rule.columns)
    keys = (rule.columns for rule in constraints if rule.kind == "unique")
    unique = _lower(columns[0] for columns in keys if len(columns) == 1)
    return dg.TableSchema(
        [
            dg.TableColumn(
                field.name,
                field.type or "?",
                constraints=dg.TableColumnConstraints(
                    nullable=field.name.lower() not in filled, unique=field.name.lower() in unique
                ),
            )
            for field in columns
        ]
    )


def enforced(joint: CompiledJoint, target: Target | None) -> tuple[Constraint, ...]:
    """Return the constraints that blocking checks of ``joint`` enforce for all rows of its table.

    An assertion enforces none for the rows to which a batch is added.
    """
    judges_batches = target is not None and not target.is_its_batch
    checks = (check for check in joint.checks if check.blocking and (check.phase == AUDIT or not judges_batches))
    return tuple(check.queries.constraint for check in checks if check.queries.constraint is not None)


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def column_lineage(lineage: Sequence[ColumnLineage], keys: Mapping[str, dg.AssetKey]) -> dg.TableColumnLineage:
    """Return Dagster's record of column lineage to the direct upstream; ``keys`` are the asset keys by joint."""
    return dg.TableColumnLineage(
        {entry.column: [dg.TableColumnDep(keys[ref.joint], ref.column) for ref in entry.upstream] for entry in lineage}
    )


def lineage_table(lineage: Sequence[ColumnLineage]) -> str:
    """Return column lineage as a Markdown table, with the columns of the direct upstream and of the sources.

    >>> paid, raw = ColumnReference("paid", "net"), ColumnReference("raw", "amount")
    >>> print(lineage_table([ColumnLineage("total", (paid,), (raw,)), ColumnLineage("one", (), ())]))
    | column | made from | in the sources |
    |---|---|---|
    | `total` | `paid.net` | `raw.amount` |
    | `one` |  |  |
    """
    rows = [
        f"| {_code(row.column)} | {_cells(row.upstream)} | {'?' if row.sources is None else _cells(row.sources)} |"
        for row in lineage
    ]
    return "\n".join(["| column | made from | in the sources |", "|---|---|---|", *rows])


def _cells(references: Sequence[ColumnReference]) -> str:
    return ", ".join(_code(f"{reference.joint}.{reference.column}") for reference in references)


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}".replace("|", "\\|").replace("\n", " ")
