"""The groups of the plan: their inputs, queries and targets.

The target of a stored joint: its table, and its write strategy as a write plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.context import GroupsContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.fusion import Fusion
from rivet_dagster.compiler.graph import Graph, TemplateNeeds
from rivet_dagster.compiler.group_query import Cte, GroupQuery, Incremental
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.model.joint import PYTHON, SOURCE, SQL, Joint
from rivet_dagster.model.partitions import Partitions
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.step_options import STEP_OPTIONS, step_options
from rivet_dagster.model.target import BY_GROUP, BY_RUN, PUBLISH, Target, WatermarkColumn
from rivet_dagster.sql.parsing.other_dialect import other_parameters
from rivet_dagster.sql.target import RUN_STARTED_AT, parameter, parameters, variable_of, watermark_of
from rivet_dagster.sql.write_strategies.error_keys import key_columns

_NO_NEEDS = TemplateNeeds()


def targets_of(graph: Graph, fusion: Fusion, profile: Profile, plugins: Plugins) -> dict[str, Target]:
    """Return the target of each stored joint: the exits of groups that are not sources."""
    stored = [name for name, group in fusion.groups.items() if name == group and graph.joints[name].type != SOURCE]
    return {
        name: target_of(graph.joints[name], profile, plugins, step_options(graph.joints[name].options)[1])
        for name in stored
    }


def fused_group(
    name: str,
    members: tuple[str, ...],
    graph: Graph,
    engines: Mapping[str, str],
    target: Target | None,
    cache: CompileCache,
) -> FusedGroup:
    """Return the group whose exit is ``name``; ``cache`` saves the separation of queries into rows and errors."""
    inputs = {u for member in members for u in graph.upstream[member]}.difference(members)
    judged = graph.judged_with
    judged_with = {read for member in members if member in judged for read in judged[member]} if judged else set()
    exit_joint = graph.joints[name]
    query = group_query(name, members, graph) if exit_joint.type not in (SOURCE, PYTHON) else None
    if query is not None and target is not None and target.errors is not None:
        # Imported only here: few projects quarantine rows, and the rules for that are many modules.
        from rivet_dagster.compiler.row_errors import with_errors

        query = with_errors(query, graph, key_columns(target.write, target.partitions), cache)
    return FusedGroup(
        name=name,
        engine=engines[name],
        joints=members,
        exit=name,
        inputs=tuple(sorted(inputs)),
        judged_with=tuple(sorted(judged_with.difference(inputs, members))),
        target=target,
        query=query,
        sql=query.text() if query is not None else graph.sql(name),
        sql_incremental=query.text(incremental=True) if query is not None and query.incremental_joints else None,
    )


def group_query(name: str, members: tuple[str, ...], graph: Graph) -> GroupQuery:
    """Return the query that computes the exit ``name``, a SQL joint or a sink."""
    results = (name,) if graph.joints[name].type == SQL else graph.upstream[name]
    return GroupQuery(results, tuple([_cte(member, graph) for member in members if member in graph.queries]))


def _cte(name: str, graph: Graph) -> Cte:
    full, later, needs = graph.queries[name], graph.incremental.get(name), graph.templates.get(name, _NO_NEEDS)
    partitions = graph.joints[name].partitions
    incremental = None
    if later is not None and needs.sink is not None:
        watermark = (watermark_of(needs.sink),) if needs.watermark else ()
        bound = watermark + _parameters(later.text, needs, partitions)
        incremental = Incremental(later.text, needs.sink, bound, needs.this)
    bound = _parameters(full.text, needs, partitions, full.dialect)
    return Cte(name, full.text, graph.upstream[name], bound, incremental, dialect=full.dialect)


def _parameters(
    text: str, needs: TemplateNeeds, partitions: Partitions | None, dialect: str | None = None
) -> tuple[str, ...]:
    """Return the parameters in the text that are bound in every run, and those of its partitions."""
    if dialect is not None:
        named = other_parameters(text)
        return tuple(name for name in (partitions.parameters if partitions is not None else ()) if name in named)
    start: tuple[str, ...] = (RUN_STARTED_AT,) if needs.run_started_at and parameter(RUN_STARTED_AT) in text else ()
    if needs.variables:
        used = parameters(text)
        start += tuple(name for name in map(variable_of, needs.variables) if name in used)
    if partitions is None or not any(parameter(name) in text for name in partitions.parameters):
        return start
    used = parameters(text)
    return start + tuple(name for name in partitions.parameters if name in used)


Defaults = Mapping[str, Mapping[str, str]]
"""The keys of joints that come from the project's defaults, by joint, and where each is given."""


def check_exits(context: GroupsContext) -> None:
    """Report RVT-326 for step options, and details of `on_error`, on a joint that is not a group's exit.

    Those that come from the defaults of the project, and not from the joint's own file, do not concern it.
    """
    graph, fusion, diagnostics = context.graph, context.fusion, context.diagnostics
    for name, joint in graph.joints.items():
        exit_name = fusion.groups[name]
        if joint.on_error is None and not joint.options:
            continue
        by_default = context.project.defaults.get(name, {})
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


def check_adoption(context: GroupsContext) -> None:
    """Report RVT-312 for `adopt` where the catalog takes no table over."""
    for name, target in context.targets.items():
        spec = context.profile.catalog(target.catalog)
        traits = context.plugins.catalogs.get(spec.type) if spec is not None else None
        if target.adopt and spec is not None and traits is not None and not traits.adopts:
            message = f"the catalog '{spec.name}' ({spec.type}) takes no table over that somebody else has made"
            joint = context.graph.joints[name]
            context.diagnostics.error(joint, "RVT-312", message, "adopt", "Leave `adopt` out, and name another table.")


def target_of(joint: Joint, profile: Profile, plugins: Plugins, options: Mapping[str, Any]) -> Target:
    """Return the target of a stored joint: the table that it declares, or one of the workspace with the joint's name.

    ``options`` are the options of the joint that concern storage. Rows that a run removes itself are not for readers of
    the base, and are published by their group even where the catalog publishes by run.
    """
    strategy = joint.write_strategy
    lookback = strategy.options.get("lookback")
    watermark = strategy.watermark_column
    table = str(joint.table) if joint.publishes else joint.name
    catalog = str(joint.catalog) if joint.publishes else profile.workspace
    declared = profile.catalog(catalog)
    publish = declared.options.get(PUBLISH, BY_GROUP) if declared and joint.retention != "run" else BY_GROUP
    traits = plugins.catalogs.get(declared.type) if declared is not None else None
    return Target(
        catalog=catalog,
        table=table,
        declared=joint.publishes,
        write=strategy.plan,
        options=options,
        partitions=joint.partitions,
        on_empty=strategy.on_empty,
        columns=strategy.columns,
        watermark=None if watermark is None else WatermarkColumn(watermark, lookback),
        retention=joint.retention,
        adopt=joint.adopt,
        errors=joint.on_error.error_table(table) if joint.on_error is not None else None,
        publish=publish,
        one_commit=declared is not None
        and publish == BY_RUN
        and plugins.catalogs[declared.type].in_one_commit(declared.options),
        keeps_versions=traits is None or traits.keeps_versions,
    )
