"""Table metadata of a joint: its name, and its columns with the constraints that blocking checks enforce."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from rivet_dagster.compiler.joints import CompiledJoint, SourceJoint
from rivet_dagster.model.check import AUDIT
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.schema import Schema


def table_name(joint: CompiledJoint) -> str:
    """Return the name of the table of a source or a stored joint: its catalog and its table."""
    return f"{joint.catalog}.{joint.table}"


def column_schema(columns: Schema, joint: CompiledJoint | None = None) -> dg.TableSchema:
    """Return the schema of ``joint``, or of a table that is not a joint; an unknown type is shown as ``?``.

    A column is marked as not nullable or unique if a blocking check enforces that for all rows of the table.
    """
    judged = [check for check in joint.checks if check.blocking and _judges_all_rows(check, joint)] if joint else []
    filled = _lower(column for check in judged if check.kind == "not_null" for column in check.columns)
    unique = _lower(check.columns[0] for check in judged if check.kind == "unique" and len(check.columns) == 1)
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


def _judges_all_rows(check: CompiledCheck, joint: CompiledJoint) -> bool:
    """Return whether a check judges all rows of the table; an assertion judges only those of the batch."""
    if check.phase == AUDIT or isinstance(joint, SourceJoint):
        return True
    return joint.write_strategy.replaces_all and joint.partitions is None


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}
