"""Table metadata of a joint: its name, and its columns with the constraints that blocking checks enforce."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from rivet_dagster.compiler.joints import CompiledJoint
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
