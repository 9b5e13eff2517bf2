"""The joints of the plan, built from the declared joints and the results of the compiler's passes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rivet_dagster.compiler.fusion import Fusion
from rivet_dagster.compiler.graph import Graph, TemplateNeeds
from rivet_dagster.compiler.joints import CompiledJoint, FunctionJoint, QueryJoint, SinkJoint, SourceJoint
from rivet_dagster.compiler.quality import CompiledChecks, shows_row_values
from rivet_dagster.compiler.schemas import JointSchema
from rivet_dagster.model.inputs import landing_options
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE, Joint
from rivet_dagster.model.project import Project, PythonFunction
from rivet_dagster.model.row_errors import FAIL
from rivet_dagster.model.step_options import step_options
from rivet_dagster.model.target import Target
from rivet_dagster.sql.parsing.known_query import KnownQuery


def resolve_joints(
    project: Project,
    graph: Graph,
    engines: Mapping[str, str],
    fusion: Fusion,
    schemas: Mapping[str, JointSchema],
    targets: Mapping[str, Target],
    checks: CompiledChecks,
) -> tuple[CompiledJoint, ...]:
    """Return the joints of the plan by name; ``targets`` has the stored joints, ``checks`` all joints."""
    resolved: list[CompiledJoint] = []
    for name in sorted(graph.joints):
        joint, known = graph.joints[name], schemas[name]
        step, options = step_options(joint.options)
        common: dict[str, Any] = {
            "name": name,
            "engine": engines[name],
            "upstream": graph.upstream[name],
            "group": fusion.groups[name],
            "asset_group": joint.group or project.asset_groups.get(name, "default"),
            "code_version": _code_version(joint, graph, project),
            "partitions": joint.partitions,
            "checks": checks[name],
            "step": step,
            "row_values": shows_row_values(joint, project.profile),
            "schema": known.schema,
            "schema_confidence": known.confidence,
            "lineage": known.lineage,
            "tags": joint.tags,
            "description": joint.description,
            "owners": joint.owners,
            "defaults": project.defaults.get(name, {}),
            "file": joint.origin.file,
            "line": joint.origin.line,
        }
        if joint.type == SOURCE:
            resolved.append(_source(joint, common, options, graph))
        else:
            resolved.append(_computed(joint, common, graph, project, targets.get(name)))
    return tuple(resolved)


def _source(joint: Joint, common: dict[str, Any], options: Mapping[str, Any], graph: Graph) -> SourceJoint:
    landing, options = landing_options(options)
    return SourceJoint(
        **common,
        options=options,
        catalog=str(joint.catalog),
        table=str(joint.table),
        sql=str(graph.sql(joint.name)),
        columns=joint.columns,
        filter=joint.filter,
        limit=joint.limit,
        lines=joint.expression_lines,
        landing=landing,
    )


def _computed(
    joint: Joint, common: dict[str, Any], graph: Graph, project: Project, target: Target | None
) -> QueryJoint | FunctionJoint | SinkJoint:
    if target is not None:
        common["catalog"], common["table"] = target.catalog, target.table
    if joint.type == SINK:
        return SinkJoint(**common)
    if joint.type == PYTHON:
        return FunctionJoint(**common, function=str(joint.function), function_file=project.functions[joint.name].file)
    query, later = graph.queries[joint.name], graph.incremental.get(joint.name)
    return QueryJoint(
        **common,
        sql=query.text,
        sql_incremental=later.text if later is not None else None,
        sql_line=joint.origin.lines.get("sql"),
        lines=query.lines,
        lines_incremental=later.lines if later is not None else (),
    )


def _code_version(joint: Joint, graph: Graph, project: Project) -> str:
    name = joint.name
    query, later, template = graph.queries.get(name), graph.incremental.get(name), graph.templates.get(name)
    function, bound = project.functions.get(name), project.variables.bound
    return code_version(joint, graph.upstream[name], query, function, later, template, bound)


def code_version(
    joint: Joint,
    upstream: tuple[str, ...],
    query: KnownQuery | None,
    function: PythonFunction | None,
    later: KnownQuery | None = None,
    template: TemplateNeeds | None = None,
    bound: Mapping[str, str] | None = None,
) -> str:
    """Return 16 hexadecimal digits. Comments, white space, description, group, owners, engine and file do not count.

    ``later`` is the query that a template gives for incremental runs, if it differs from the first run's; ``bound``
    are the texts with ``${VAR}``, unexpanded, of the variables of templates that a run binds.
    """
    logic: dict[str, Any] = {
        "type": joint.type,
        "sql": query.fingerprint if query else None,
        "function": function.tree if function else None,
        "upstream": upstream if joint.type in (SINK, PYTHON) else None,
        "columns": joint.columns,
        "filter": joint.filter,
        "limit": joint.limit,
        "write_strategy": vars(joint.write_strategy),
        "on_error": FAIL if joint.on_error is None else joint.on_error.mode,
    }
    if joint.partitions is not None:  # left out otherwise, so that the version of other joints stays the same
        logic["partitions"] = vars(joint.partitions)
    if query is not None and query.dialect is not None:
        logic["dialect"] = query.dialect
    if later is not None and template is not None:
        logic["sql_incremental"] = later.fingerprint, template.sink
    if bound and template is not None and template.variables:
        logic["variables"] = {name: bound[name] for name in template.variables}
    return hashlib.sha256(_JSON.encode(logic).encode()).hexdigest()[:16]


_JSON = json.JSONEncoder(sort_keys=True, default=str)
