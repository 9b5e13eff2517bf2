"""The rules for groups that quarantine row errors."""

from __future__ import annotations

from rivet_dagster.compiler.context import GroupsContext
from rivet_dagster.compiler.diagnostics import Lines
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.group_query import Cte
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.row_errors import SUFFIX, NotSeparable
from rivet_dagster.model.text_lines import locate_line
from rivet_dagster.sql.source_query import projection_by_line

_CATALOG = "Use a catalog that can, or `on_error: fail`."


def check_error_tables(context: GroupsContext) -> None:
    """Report RVT-312 for error tables in catalogs that publish none, and names that the catalog refuses.

    RVT-329 for engines that cannot separate errors from rows.

    Also RVT-301 for a joint that is named as the asset of an error table.
    """
    graph, diagnostics = context.graph, context.diagnostics
    profile, plugins = context.profile, context.plugins
    for name, target in context.targets.items():
        spec = profile.catalog(target.catalog)
        traits = plugins.catalogs.get(spec.type) if spec is not None else None
        if target.errors is None or spec is None or traits is None:
            continue
        joint, clash = graph.joints[name], graph.joints.get(name + SUFFIX)
        if clash is not None:
            diagnostics.error(clash, "RVT-301", f"'{clash.name}' is the asset of the row errors of '{name}'", "name")
        engine = profile.engine(context.engines[name])
        able = plugins.engine(engine)
        if engine is not None and able is not None and not able.separates_errors:
            message = f"the engine '{engine.name}' ({engine.type}) cannot separate the errors of rows from the rows"
            remedy = "Use an engine pyspark that runs Spark, or `on_error: fail`."
            diagnostics.error(joint, "RVT-329", message, "on_error", remedy)
        if not traits.error_tables:
            message = f"the catalog '{spec.name}' ({spec.type}) publishes no error tables beside its tables"
            diagnostics.error(joint, "RVT-312", message, "on_error", _CATALOG)
            continue
        for error in traits.check_table(spec.options, target.errors.table, {}, True):
            if error.key == "table":  # what is wrong with the catalog is reported of the joint's own table
                message = f"the name of its error table: {error.message}"
                diagnostics.error(joint, error.code, message, "on_error.errors_table", error.remediation)


def check_quarantine(context: GroupsContext) -> None:
    """Report RVT-330 for queries of quarantining groups whose errors cannot be separated from their rows."""
    graph, diagnostics = context.graph, context.diagnostics
    for group in context.groups:
        if group.target is not None and group.target.errors is not None:
            for cte in group.ctes:
                for refused, lines in _not_separable(cte, graph).items():
                    declared = graph.joints[cte.joint].on_error is not None
                    because = "" if declared else f"; '{group.exit}' declares it for this joint, too"
                    message = (
                        f"{refused.construct}: rows that fail here cannot be separated from the others, "
                        f"which `on_error: quarantine` needs{because}"
                    )
                    joint = graph.joints[cte.joint]
                    if joint.type == SOURCE:
                        at = _line_of_source(joint, refused.line)
                        diagnostics.errors.append(Diagnostic("RVT-330", message, joint.name, joint.origin.file, at))
                    else:
                        diagnostics.in_sql(joint, "RVT-330", message, refused.line, lines=lines)


def _line_of_source(source: Joint, line: int) -> int | None:
    """Return the line in the source's file of a line of its query."""
    lines = source.expression_lines
    _, locations = projection_by_line("", source.columns, source.filter, source.limit, lines)
    return locate_line(locations, line).template_line if locations else source.origin.line


def _not_separable(cte: Cte, graph: Graph) -> dict[NotSeparable, Lines]:
    """Return what cannot be separated in each text of a joint, with the lines of the first text that has it."""
    later = graph.incremental.get(cte.joint)
    texts = [(cte.errors, graph.queries.get(cte.joint))]
    texts += [(cte.incremental.errors, later)] if cte.incremental is not None else []
    refused: dict[NotSeparable, Lines] = {}
    for errors, query in texts:
        if isinstance(errors, NotSeparable):
            refused.setdefault(errors, query.lines if query is not None else ())
    return refused
