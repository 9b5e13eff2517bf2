"""Rendering of the difference between two plans as text."""

from __future__ import annotations

from rivet_dagster.compiler.diff import OWN, REMOVED, BrokenColumn, ChangedJoint, PlanDiff


def diff_text(diff: PlanDiff) -> str:
    """Return a line for each joint added, removed or changed, and for each change of a column that breaks readers.

    >>> print(diff_text(PlanDiff(added=("b",), changed=(ChangedJoint("c", "upstream", ("b",)),))))
    + b
    ~ c  (through b)
    >>> print(diff_text(PlanDiff()))
    no difference
    """
    lines = [f"+ {name}" for name in diff.added] + [f"- {name}" for name in diff.removed]
    lines += [_changed(change) for change in diff.changed]
    lines += [_broken(column) for column in diff.breaking]
    return "\n".join(lines) or "no difference"


def _changed(change: ChangedJoint) -> str:
    causes = ["its own logic"] if change.cause == OWN else []
    causes += [f"through {', '.join(change.through)}"] if change.through else []
    return f"~ {change.joint}  ({', '.join(causes)})"


def _broken(column: BrokenColumn) -> str:
    change = "is gone" if column.change == REMOVED else f"is {column.after}, was {column.before}"
    return f"! {column.joint}.{column.column} {change}: read by {', '.join(column.readers)}"
