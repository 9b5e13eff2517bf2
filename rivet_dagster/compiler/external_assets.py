"""The rules of the catalog ``dagster``, which nobody declares: other Dagster assets, that can only be read."""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.model.external_assets import DAGSTER, is_external, key_path
from rivet_dagster.model.joint import SINK, Joint

_RETURN = "Name a catalog of the profile; an asset of your own may read the joint and return its rows."


def check_external_assets(graph: Graph, key_prefix: Sequence[str], found: Diagnostics) -> None:
    """RVT-204 for what is no asset key, RVT-203 for options, RVT-310 for a key of this project, RVT-309 for a sink."""
    own = {(*key_prefix, name): name for name in graph.joints}
    for joint in graph.joints.values():
        if joint.type == SINK and joint.catalog == DAGSTER:
            message = f"the catalog '{DAGSTER}' holds what other Dagster assets return: no sink can write to it"
            found.error(joint, "RVT-309", message, "catalog", _RETURN)
        elif is_external(joint):
            _check_source(joint, own, found)


def _check_source(joint: Joint, own: dict[tuple[str, ...], str], found: Diagnostics) -> None:
    if joint.options:
        named = ", ".join(f"`{key}`" for key in joint.options)
        message = f"a source of the catalog '{DAGSTER}' has no options, and this one has {named}"
        found.error(joint, "RVT-203", message, "options")
    try:
        path = key_path(joint.table or "")
    except ValueError as error:
        found.error(joint, "RVT-204", f"`table` {error}", "table")
        return
    if path in own:
        message = f"the asset {joint.table} is the joint '{own[path]}' of this project: read that instead"
        found.error(joint, "RVT-310", message, "table", "Name the joint in the reader's `upstream` or query.")
