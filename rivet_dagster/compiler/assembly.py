"""The rules of the graph: which joints may be upstream or downstream of which."""

from __future__ import annotations

from itertools import pairwise

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.context import DeclaredContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph, find_cycles
from rivet_dagster.model.joint import SINK, SOURCE, Joint
from rivet_dagster.sql.parsing.dialect import SqlError
from rivet_dagster.sql.parsing.embedding import refuse_unbalanced
from rivet_dagster.sql.source_query import check_source_expression

_EXPRESSION = "Write one expression over a row's own columns; whatever is more belongs in a SQL joint."


def check_assembly(context: DeclaredContext) -> None:
    """Report RVT-303 to 305, 307 and 314, and sources whose transforms are more than expressions over one row."""
    graph, diagnostics, cache = context.graph, context.diagnostics, context.cache
    for joint in graph.joints.values():
        if joint.type == SOURCE:
            _check_source(joint, graph, diagnostics, cache)
        if joint.type == SINK:
            _check_sink(joint, graph, diagnostics)
    _check_cycles(graph, diagnostics)


def _check_source(joint: Joint, graph: Graph, diagnostics: Diagnostics, cache: CompileCache) -> None:
    if joint.upstream:
        diagnostics.error(joint, "RVT-303", "a source has no upstream", key="upstream")
    for name, text in joint.columns:
        if text is not None:
            _check_expression(joint, text, f"column '{name}'", f"columns.{name}", diagnostics, cache)
    if joint.filter is not None:
        _check_expression(joint, joint.filter, "`filter`", "filter", diagnostics, cache)
    _check_ddl(joint, diagnostics)
    readers = graph.consumers[joint.name] + graph.judging.get(joint.name, ())
    if joint.limit is not None:
        if len(readers) > 1:
            message = f"a source with `limit` has one reader, this one has {', '.join(readers)}"
            diagnostics.error(joint, "RVT-314", message, key="limit")
        elif readers and graph.times_read(joint.name, readers[0]) > 1:
            message = f"a source with `limit` is read once, {readers[0]} reads it more than once"
            diagnostics.error(joint, "RVT-314", message, key="limit")


def _check_expression(
    joint: Joint, text: str, subject: str, key: str, diagnostics: Diagnostics, cache: CompileCache
) -> None:
    try:
        check_source_expression(text, cache)
    except SqlError as error:
        diagnostics.error(joint, "RVT-207", f"{subject} {error}", key, _EXPRESSION)


def _check_ddl(joint: Joint, diagnostics: Diagnostics) -> None:
    ddl = joint.options.get("schema")
    if isinstance(ddl, str) and not ddl.startswith("{"):  # else JSON
        try:
            refuse_unbalanced(ddl)
        except SqlError as error:
            diagnostics.error(joint, "RVT-204", f"`options` has a wrong `schema`: it {error}", "options")


def _check_sink(joint: Joint, graph: Graph, diagnostics: Diagnostics) -> None:
    if not joint.upstream:
        diagnostics.error(joint, "RVT-304", "a sink needs `upstream`")
    before = " and ".join(graph.upstream[joint.name])
    for name in graph.consumers[joint.name]:
        reader = graph.joints[name]
        message = f"'{joint.name}' is a sink, which has no downstream{f': read {before} instead' if before else ''}"
        diagnostics.error(reader, "RVT-307", message, key="sql" if reader.upstream is None else "upstream")


def _check_cycles(graph: Graph, diagnostics: Diagnostics) -> None:
    for cycle in find_cycles(graph.before, graph.order):
        checked = [name for name, behind in pairwise(cycle) if behind not in graph.upstream[name]]
        because = f" (by the checks of {', '.join(checked)})" if checked else ""
        message = f"the joints form a cycle: {' <- '.join(cycle)}{because}"
        diagnostics.error(graph.joints[cycle[0]], "RVT-305", message, key="upstream")
