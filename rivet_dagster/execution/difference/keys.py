"""The columns by which rows of two versions of a table are matched."""

from __future__ import annotations

from collections.abc import Iterator

from rivet_dagster.compiler.joints import ComputedJoint
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import DeleteInsert, History, Upsert


def candidate_keys(joint: ComputedJoint, target: Target) -> Iterator[tuple[str, ...]]:
    """Yield the ``key_columns`` of the table's write strategy, then the columns of each unique check, in order."""
    match target.write:
        case Upsert(keys=keys) | History(keys=keys):
            yield keys
        case DeleteInsert(columns=columns, by_partition=False):
            yield columns
    for check in joint.checks:
        constraint = check.queries.constraint
        if constraint is not None and constraint.kind == "unique":
            yield constraint.columns
