"""The difference between two plans as a person reads it."""

from __future__ import annotations

from rivet_dagster.compiler.diff import OWN, REMOVED, BrokenColumn, ChangedJoint, PlanDiff


def diff_text(diff: PlanDiff) -> str:
    """What was added, removed and changed, and what breaks.

    >>> print(diff_text(PlanDiff(added=("b",), changed=(ChangedJoint("c", "upstream", ("b",)),))))
    + b
    ~ c  (through b)
    >>> print(diff_text(PlanDiff()))
    no difference
    """
    lines = [f"+ {name}" for name in diff.added] + [f"- {name}" for name in diff.removed]
    lines += [_changed(change) for change in diff.changed]
    lines += [_broken(one) for one in diff.breaking]
    return "\n".join(lines) or "no difference"


def _changed(change: ChangedJoint) -> str:
    causes = ["its own logic"] if change.cause == OWN else []
    causes += [f"through {', '.join(change.through)}"] if change.through else []
    return f"~ {change.joint}  ({', '.join(causes)})"


def _broken(one: BrokenColumn) -> str:
    what = "is gone" if one.change == REMOVED else f"is {one.after}, was {one.before}"
    return f"! {one.joint}.{one.column} {what}: read by {', '.join(one.readers)}"
