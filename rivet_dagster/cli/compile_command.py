"""``rivet-dagster compile``: print the plan as text, Mermaid or JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rivet_dagster.cli.diff_text import diff_text
from rivet_dagster.cli.plan_mermaid import plan_mermaid
from rivet_dagster.cli.plan_text import plan_text
from rivet_dagster.compiler.diff import diff_plans, read_plan
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.loading import compile_directory


def compile_command(options: argparse.Namespace) -> int:
    """Print the plan. Return 1 where the project does not compile, 10 where only its configuration is wrong."""
    assembly = compile_directory(options.project, options.profile, introspect=options.introspect)
    if options.diff is not None:
        return _diff(options, assembly.raise_errors())
    if assembly.success:
        _check_names(options.joints, assembly)
    if options.format == "json":
        print(_filtered(assembly, options.joints), end="")
        return 0 if assembly.success else RivetError.of(assembly.errors).exit_code
    for warning in assembly.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    assembly.raise_errors()
    show = plan_mermaid if options.format == "mermaid" else plan_text
    print(show(assembly, options.joints))
    return 0


def _diff(options: argparse.Namespace, assembly: CompiledAssembly) -> int:
    """Print the difference from the plan in the file of ``--diff``."""
    if options.joints or options.format == "mermaid":
        raise RivetError("RVT-110", "--diff compares whole plans, as text or with --format json")
    try:
        text = Path(options.diff).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RivetError("RVT-113", f"{options.diff} cannot be read: {error}", file=options.diff) from error
    diff = diff_plans(read_plan(text, options.diff), assembly)
    print(diff.to_json() if options.format == "json" else diff_text(diff) + "\n", end="")
    return 0


def _check_names(names: list[str], assembly: CompiledAssembly) -> None:
    known = [joint.name for joint in assembly.joints]
    for name in names:
        if name not in known:
            raise RivetError("RVT-306", f"no joint is named '{name}'{nearest(name, known)}")


def _filtered(assembly: CompiledAssembly, names: list[str]) -> str:
    """Return the plan as JSON; with ``names``, its lists hold only those joints and their groups."""
    text = assembly.to_json()
    if not names:
        return text
    plan = json.loads(text)
    plan["joints"] = [joint for joint in plan["joints"] if joint["name"] in names]
    groups = {joint["group"] for joint in plan["joints"]}
    plan["fused_groups"] = [group for group in plan["fused_groups"] if group["name"] in groups]
    return json.dumps(plan, indent=2, ensure_ascii=False) + "\n"
