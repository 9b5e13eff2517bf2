"""Rules about options and keys that only a group's exit may have."""

from __future__ import annotations

from collections.abc import Mapping

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.fusion import Fusion
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.step_options import STEP_OPTIONS

Defaults = Mapping[str, Mapping[str, str]]
"""The keys of joints that come from the project's defaults, by joint, and where each is given."""


def check_exits(graph: Graph, fusion: Fusion, defaults: Defaults, diagnostics: Diagnostics) -> None:
    """Report RVT-326 for step options, and details of `on_error`, on a joint that is not a group's exit.

    Those that come from the ``defaults`` of the project, and not from the joint's own file, do not concern it.
    """
    for name, joint in graph.joints.items():
        exit_name = fusion.groups[name]
        if joint.on_error is None and not joint.options:
            continue
        by_default = defaults.get(name, {})
        if exit_name != name and "on_error" not in by_default:
            _check_on_error(joint, graph.joints[exit_name], diagnostics)
        if "options" in by_default:
            continue
        for key in sorted(STEP_OPTIONS.keys() & joint.options.keys()):
            if joint.type == SOURCE:
                message = f"the option `{key}` has no meaning on a source, which no step makes"
                diagnostics.error(joint, "RVT-326", message, "options")
            elif exit_name != name:
                message = f"the option `{key}` belongs to '{exit_name}', which this joint runs in one step with"
                remedy = f"Move it to '{exit_name}', or store this joint with `eager: true`."
                diagnostics.error(joint, "RVT-326", message, "options", remedy)


def _check_on_error(joint: Joint, exit_joint: Joint, diagnostics: Diagnostics) -> None:
    declared = joint.on_error
    if declared is None or declared == exit_joint.on_error:
        return
    for key in ("max_errors", "errors_table", "max_age"):
        if getattr(declared, key) is not None:
            name = exit_joint.name
            message = f"`{key}` belongs to '{name}', which this joint runs in one step and shares an error table with"
            remedy = f"Move it to '{name}', or store this joint with `eager: true`."
            diagnostics.error(joint, "RVT-326", message, f"on_error.{key}", remedy)
