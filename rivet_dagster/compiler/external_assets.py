"""The rules of the built-in catalog ``dagster``: external assets, which are read-only."""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.compiler.context import DeclaredContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.model.external_assets import DAGSTER, is_external, key_path
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.row_errors import SUFFIX

_RETURN = "Name a catalog of the profile; an asset of your own may read the joint and return its rows."
_OF_ERRORS = "An asset of your own may read it and return its rows."


def check_external_assets(context: DeclaredContext) -> None:
    """Report RVT-204 (a wrong key), RVT-203 (options), RVT-310 (a key of this project), RVT-309 (a target)."""
    graph, diagnostics = context.graph, context.diagnostics
    of_catalog = [joint for joint in graph.joints.values() if joint.catalog == DAGSTER]
    own = _own_keys(context.project.dagster.key_prefix, graph) if of_catalog else {}
    for joint in of_catalog:
        if joint.publishes:
            message = f"the catalog '{DAGSTER}' holds what other Dagster assets return: no joint can write to it"
            diagnostics.error(joint, "RVT-309", message, "catalog", _RETURN)
        elif is_external(joint):
            _check_source(joint, own, graph, diagnostics)


def _own_keys(key_prefix: Sequence[str], graph: Graph) -> dict[tuple[str, ...], str]:
    """Return the keys of the project's assets, and for each what a source of that key is told."""
    own = {(*key_prefix, name): f"is the joint '{name}' of this project: read that instead" for name in graph.joints}
    for name, joint in graph.joints.items():
        if joint.on_error is not None and joint.on_error.quarantines:
            message = f"holds the row errors of '{name}', which joints cannot read"
            own[*key_prefix, name + SUFFIX] = message
    return own


def _check_source(joint: Joint, own: dict[tuple[str, ...], str], graph: Graph, diagnostics: Diagnostics) -> None:
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
        remedy = _OF_ERRORS if path[-1] not in graph.joints else "Name the joint in the reader's `upstream` or query."
        diagnostics.error(joint, "RVT-310", f"the asset {joint.table} {own[path]}", "table", remedy)
