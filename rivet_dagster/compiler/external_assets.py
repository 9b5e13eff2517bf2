"""The rules of the built-in catalog ``dagster``: external assets, which are read-only."""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.model.external_assets import DAGSTER, is_external, key_path
from rivet_dagster.model.joint import SINK, Joint

_RETURN = "Name a catalog of the profile; an asset of your own may read the joint and return its rows."


def check_external_assets(graph: Graph, key_prefix: Sequence[str], diagnostics: Diagnostics) -> None:
    """Report RVT-204 (a wrong key), RVT-203 (options), RVT-310 (a key of this project), RVT-309 (a sink)."""
    own = {(*key_prefix, name): name for name in graph.joints}
    for joint in graph.joints.values():
        if joint.type == SINK and joint.catalog == DAGSTER:
            message = f"the catalog '{DAGSTER}' holds what other Dagster assets return: no sink can write to it"
            diagnostics.error(joint, "RVT-309", message, "catalog", _RETURN)
        elif is_external(joint):
            _check_source(joint, own, diagnostics)


def _check_source(joint: Joint, own: dict[tuple[str, ...], str], diagnostics: Diagnostics) -> None:
    if joint.options:
        options = ", ".join(f"`{key}`" for key in joint.options)
        message = f"a source of the catalog '{DAGSTER}' has no options, and this one has {options}"
        diagnostics.error(joint, "RVT-203", message, "options")
    try:
        path = key_path(joint.table or "")
    except ValueError as error:
        diagnostics.error(joint, "RVT-204", f"`table` {error}", "table")
        return
    if path in own:
        message = f"the asset {joint.table} is the joint '{own[path]}' of this project: read that instead"
        diagnostics.error(joint, "RVT-310", message, "table", "Name the joint in the reader's `upstream` or query.")
