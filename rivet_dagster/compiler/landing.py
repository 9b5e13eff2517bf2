"""The rules of landing zones: which sources can be one, and which joints may read them.

The rules of the built-in catalog ``dagster``: external assets, which are read-only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rivet_dagster.compiler.context import DeclaredContext, GroupsContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.tables import Tables, share
from rivet_dagster.model.external_assets import DAGSTER, is_external, key_path
from rivet_dagster.model.inputs import Landing, landing_options
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.row_errors import SUFFIX

_WHOLE = "Leave `partitions` out: the write strategies append, merge and delete_insert take whatever comes."


def check_landing_zones(context: DeclaredContext) -> None:
    """Report RVT-321 for a zone that cannot be listed, has partitions, or archives files that other sources read."""
    graph, tables, diagnostics = context.graph, context.tables, context.diagnostics
    sources = [joint for joint in graph.joints.values() if joint.type == SOURCE]
    for joint in sources:
        landing = _landing(joint)
        if landing is None:
            continue
        spec = tables.profile.catalog(joint.catalog or "")
        traits = tables.plugins.catalogs.get(spec.type) if spec else None
        why = traits.refuses_landing(spec.options, joint.table or "") if spec and traits else None
        if why:
            diagnostics.error(
                joint, "RVT-321", f"{joint.catalog}.{joint.table} cannot be a landing zone: {why}", "options"
            )
        if joint.partitions is not None:
            message = "a landing zone has no `partitions`: what a run leaves out of a file would never be read"
            diagnostics.error(joint, "RVT-321", message, "partitions", _WHOLE)
        others = _sharing(joint, sources, tables) if landing.archive else []
        if others:
            message = f"the files that it archives are those of {' and '.join(others)}, too"
            remedy = "Let one source archive them, and all others read that one in a SQL joint."
            diagnostics.error(joint, "RVT-321", message, "options", remedy)


def check_landing_readers(context: GroupsContext) -> None:
    """Report RVT-321 for a reader that has partitions, or whose retention would lose the list of consumed files."""
    graph, fusion, diagnostics = context.graph, context.fusion, context.diagnostics
    for joint in graph.joints.values():
        if joint.type != SOURCE or _landing(joint) is None:
            continue
        for exit_name in sorted({fusion.groups[reader] for reader in graph.consumers[joint.name]}):
            reader = graph.joints[exit_name]
            if reader.retention == "run":
                message = f"with `retention: run` it would forget which files of '{joint.name}' it has read"
                diagnostics.error(reader, "RVT-321", message, "retention", "Leave `retention` out.")
            if reader.partitions is not None:
                message = f"a run of one partition would take the files of '{joint.name}' for read by all of them"
                diagnostics.error(reader, "RVT-321", message, "partitions", _WHOLE)


def _landing(joint: Joint) -> Landing | None:
    return landing_options(joint.options)[0]


def _sharing(joint: Joint, sources: Iterable[Joint], tables: Tables) -> list[str]:
    """Return the names of other sources that read files of this one."""
    return [other.name for other in sources if other is not joint and share(tables.of(joint), tables.of(other))]


_RETURN = "Name a catalog of the profile; an asset of your own may read the joint and return its rows."
_OF_ERRORS = "An asset of your own may read it and return its rows."


def check_external_assets(context: DeclaredContext) -> None:
    """Report RVT-204 (a wrong key), RVT-203 (options), RVT-310 (a key of this project), RVT-309 (a target)."""
    graph, diagnostics = context.graph, context.diagnostics
    of_catalog = [joint for joint in graph.joints.values() if joint.catalog == DAGSTER]
    own_keys = _own_keys(context.project.dagster.key_prefix, graph) if of_catalog else {}
    for joint in of_catalog:
        if joint.publishes:
            message = f"the catalog '{DAGSTER}' holds what other Dagster assets return: no joint can write to it"
            diagnostics.error(joint, "RVT-309", message, "catalog", _RETURN)
        elif is_external(joint):
            _check_source(joint, own_keys, graph, diagnostics)


def _own_keys(key_prefix: Sequence[str], graph: Graph) -> dict[tuple[str, ...], str]:
    """Return the keys of the project's assets, and for each what a source of that key is told."""
    refused = {
        (*key_prefix, name): f"is the joint '{name}' of this project: read that instead" for name in graph.joints
    }
    for name, joint in graph.joints.items():
        if joint.on_error is not None and joint.on_error.quarantines:
            message = f"holds the row errors of '{name}', which joints cannot read"
            refused[*key_prefix, name + SUFFIX] = message
    return refused


def _check_source(joint: Joint, refused: dict[tuple[str, ...], str], graph: Graph, diagnostics: Diagnostics) -> None:
    if joint.options:
        options = ", ".join(f"`{key}`" for key in joint.options)
        message = f"a source of the catalog '{DAGSTER}' has no options, and this one has {options}"
        diagnostics.error(joint, "RVT-203", message, "options")
    try:
        path = key_path(joint.table or "")
    except ValueError as error:
        diagnostics.error(joint, "RVT-204", f"`table` {error}", "table")
        return
    if path in refused:
        remedy = _OF_ERRORS if path[-1] not in graph.joints else "Name the joint in the reader's `upstream` or query."
        diagnostics.error(joint, "RVT-310", f"the asset {joint.table} {refused[path]}", "table", remedy)
