"""The rules of the graph: what may stand before and after what."""

from __future__ import annotations

from itertools import pairwise

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph, find_cycles
from rivet_dagster.model.joint import SINK, SOURCE, Joint
from rivet_dagster.sql.balance import refuse_unbalanced
from rivet_dagster.sql.dialect import SqlError
from rivet_dagster.sql.projection import check_source_expression

_EXPRESSION = "Write one expression over a row's own columns; whatever is more belongs in a SQL joint."


def check_assembly(graph: Graph, found: Diagnostics, cache: CompileCache) -> None:
    """RVT-303 to 305, 307, 314, and sources whose transforms are more than a row's own."""
    for joint in graph.joints.values():
        if joint.type == SOURCE:
            _check_source(joint, graph, found, cache)
        if joint.type == SINK:
            _check_sink(joint, graph, found)
    _check_cycles(graph, found)


def _check_source(joint: Joint, graph: Graph, found: Diagnostics, cache: CompileCache) -> None:
    if joint.upstream:
        found.error(joint, "RVT-303", "a source has no upstream", key="upstream")
    for name, text in joint.columns:
        if text is not None:
            _check_expression(joint, text, f"column '{name}'", f"columns.{name}", found, cache)
    if joint.filter is not None:
        _check_expression(joint, joint.filter, "`filter`", "filter", found, cache)
    _check_ddl(joint, found)
    readers = graph.consumers[joint.name] + graph.judging.get(joint.name, ())
    if joint.limit is not None:
        if len(readers) > 1:
            message = f"a source with `limit` has one reader, this one has {', '.join(readers)}"
            found.error(joint, "RVT-314", message, key="limit")
        elif readers and graph.times_read(joint.name, readers[0]) > 1:
            message = f"a source with `limit` is read once, {readers[0]} reads it more than once"
            found.error(joint, "RVT-314", message, key="limit")


def _check_expression(joint: Joint, text: str, subject: str, key: str, found: Diagnostics, cache: CompileCache) -> None:
    try:
        check_source_expression(text, cache)
    except SqlError as error:
        found.error(joint, "RVT-207", f"{subject} {error}", key, _EXPRESSION)


def _check_ddl(joint: Joint, found: Diagnostics) -> None:
    ddl = joint.options.get("schema")
    if isinstance(ddl, str) and not ddl.startswith("{"):  # else JSON
        try:
            refuse_unbalanced(ddl)
        except SqlError as error:
            found.error(joint, "RVT-204", f"`options` has a wrong `schema`: it {error}", "options")


def _check_sink(joint: Joint, graph: Graph, found: Diagnostics) -> None:
    if not joint.upstream:
        found.error(joint, "RVT-304", "a sink needs `upstream`")
    before = " and ".join(graph.upstream[joint.name])
    for name in graph.consumers[joint.name]:
        reader = graph.joints[name]
        message = f"'{joint.name}' is a sink, which has no downstream{f': read {before} instead' if before else ''}"
        found.error(reader, "RVT-307", message, key="sql" if reader.upstream is None else "upstream")


def _check_cycles(graph: Graph, found: Diagnostics) -> None:
    for cycle in find_cycles(graph.before, graph.order):
        judged = [name for name, behind in pairwise(cycle) if behind not in graph.upstream[name]]
        because = f" (by the checks of {', '.join(judged)})" if judged else ""
        message = f"the joints form a cycle: {' <- '.join(cycle)}{because}"
        found.error(graph.joints[cycle[0]], "RVT-305", message, key="upstream")
