"""Rules about options that only a group's exit may have."""

from __future__ import annotations

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.fusion import Fusion
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.step_options import STEP_OPTIONS


def check_exits(graph: Graph, fusion: Fusion, diagnostics: Diagnostics) -> None:
    """Report RVT-326 for step options on a joint that is not a group's exit."""
    for name, joint in graph.joints.items():
        exit_name = fusion.groups[name]
        for key in sorted(STEP_OPTIONS.keys() & joint.options.keys()):
            if joint.type == SOURCE:
                message = f"the option `{key}` has no meaning on a source, which no step makes"
                diagnostics.error(joint, "RVT-326", message, "options")
            elif exit_name != name:
                message = f"the option `{key}` belongs to '{exit_name}', which this joint runs in one step with"
                remedy = f"Move it to '{exit_name}', or store this joint with `eager: true`."
                diagnostics.error(joint, "RVT-326", message, "options", remedy)
