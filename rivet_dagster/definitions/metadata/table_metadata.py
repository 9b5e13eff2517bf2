"""A joint as a table: its name, and its columns with the constraints that its gate enforces."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from rivet_dagster.compiler.joints import CompiledJoint
from rivet_dagster.model.check import AUDIT
from rivet_dagster.model.check_plan import Constraint
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.target import Target


def table_name(joint: CompiledJoint) -> str:
    """Return the name of a stored joint's table, or a source's, as its catalog and table."""
    return f"{joint.catalog}.{joint.table}"


def column_schema(columns: Schema, constraints: Iterable[Constraint] = ()) -> dg.TableSchema:
    """Return a table's columns with the constraints that hold of its rows; an unknown type reads ``?``."""
    constraints = tuple(constraints)
    filled = _lower(name for found in constraints if found.kind == "not_null" for name in found.columns)
    keys = (found.columns for found in constraints if found.kind == "unique")
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
    """Return the constraints that the gate of ``joint`` enforces: blocking checks that judge all rows of its table.

    An assertion does not judge the rows that its batch is added to.
    """
    judges_batches = target is not None and not target.is_its_batch
    checks = (check for check in joint.checks if check.blocking and (check.phase == AUDIT or not judges_batches))
    return tuple(check.queries.constraint for check in checks if check.queries.constraint is not None)


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}
