"""``rivet-dagster compile``: print the plan as text, Mermaid or JSON, or its difference from another plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rivet_dagster.cli.compile.mermaid import plan_mermaid
from rivet_dagster.cli.compile.outline import plan_text
from rivet_dagster.cli.compiled import compile_for_command
from rivet_dagster.cli.console import has_colors, print_plain, show, show_changes, show_diagnostics, terminal_width
from rivet_dagster.cli.stdout import stdout_kept_for_the_report
from rivet_dagster.compiler.diff import OWN, REMOVED, BrokenColumn, ChangedJoint, PlanDiff
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError, nearest

_MOST_IN_TREE = 1_000
"""The joints of a plan up to which a tree is drawn: rich needs two seconds for these."""


def compiled_plan(
    root: Path, profile: str | None, introspect: bool, analyze: bool, engine: str | None = None
) -> CompiledAssembly:
    """Return the plan of a project, on its engines or on ``engine``; with ``analyze`` they have judged all queries."""
    assembly = compile_for_command(root, profile, introspect=introspect or analyze, engine=engine)
    if not ((introspect or analyze) and assembly.success):
        return assembly
    from rivet_dagster.execution.runtime import Runtime
    from rivet_dagster.execution.target_columns import check_targets

    runtime = Runtime(assembly, root.resolve())
    if analyze:
        from rivet_dagster.execution.analysis import analyze_plan

        with stdout_kept_for_the_report():
            assembly = analyze_plan(assembly, runtime)
    return check_targets(assembly, runtime) if assembly.success else assembly


def show_plan(assembly: CompiledAssembly, joints: Sequence[str], format: str) -> int:
    """Print a plan. Return 1 where the project does not compile, 10 where only its configuration is wrong."""
    if assembly.success:
        _check_names(joints, assembly)
    if format == "json":
        print(_filtered(assembly, joints), end="")
        return 0 if assembly.success else RivetError.of(assembly.errors).exit_code
    show_diagnostics(assembly.warnings, "warning: ", "bold yellow")
    assembly.raise_errors()
    if format == "mermaid":
        print(plan_mermaid(assembly, joints))
    else:
        _show_visual(assembly, joints)
    return 0


def _show_visual(assembly: CompiledAssembly, joints: Sequence[str]) -> None:
    if has_colors(sys.stdout) and len(assembly.joints) <= _MOST_IN_TREE:
        # Imported only here: rich takes longer to import than a small plan to compile.
        from rivet_dagster.cli.compile.tree import plan_tree

        show(plan_tree(assembly, joints))
    else:
        print_plain(plan_text(assembly, joints, terminal_width(sys.stdout)))


def compare_plans(assembly: CompiledAssembly, joints: Sequence[str], format: str, old: str) -> int:
    """Print the difference of a plan from that in the file ``old``. Raises RVT-110, RVT-113."""
    from rivet_dagster.compiler.diff import diff_plans, read_plan

    assembly.raise_errors()
    if joints or format == "mermaid":
        raise RivetError("RVT-110", "--diff compares whole plans, as text or with --format json")
    try:
        text = Path(old).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RivetError("RVT-113", f"{old} cannot be read: {error}", file=old) from error
    diff = diff_plans(read_plan(text, old), assembly)
    if format == "json":
        print(diff.to_json(), end="")
    else:
        show_changes(diff_text(diff))
    return 0


def _check_names(names: Sequence[str], assembly: CompiledAssembly) -> None:
    known = [joint.name for joint in assembly.joints]
    for name in names:
        if name not in known:
            raise RivetError("RVT-306", f"no joint is named '{name}'{nearest(name, known)}")


def _filtered(assembly: CompiledAssembly, names: Sequence[str]) -> str:
    """Return the plan as JSON; with ``names``, its lists hold only those joints and their groups."""
    text = assembly.to_json()
    if not names:
        return text
    plan = json.loads(text)
    plan["joints"] = [joint for joint in plan["joints"] if joint["name"] in names]
    groups = {joint["group"] for joint in plan["joints"]}
    plan["fused_groups"] = [group for group in plan["fused_groups"] if group["name"] in groups]
    return json.dumps(plan, indent=2, ensure_ascii=False) + "\n"


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
