"""The columns by which rows of two versions of a table are matched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rivet_dagster.compiler.joints import ComputedJoint
from rivet_dagster.model.check import ERROR
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import DeleteInsert, History, Upsert


@dataclass(frozen=True)
class Key:
    """Columns by which rows are matched; ``unique`` ones are meant to have no values twice in a version."""

    columns: tuple[str, ...]
    unique: bool = False


def candidate_keys(joint: ComputedJoint, target: Target) -> Iterator[Key]:
    """Yield the ``key_columns`` of the table's write strategy, then the columns of each unique check, in order.

    A history has several rows of each key, a delete_insert may have, and a check that only warns has let them pass.
    """
    match target.write:
        case Upsert(keys=keys):
            yield Key(keys, unique=True)
        case History(keys=keys):
            yield Key(keys)
        case DeleteInsert(columns=columns, by_partition=False):
            yield Key(columns)
    for check in joint.checks:
        constraint = check.queries.constraint
        if constraint is not None and constraint.kind == "unique":
            yield Key(constraint.columns, unique=check.severity == ERROR)
