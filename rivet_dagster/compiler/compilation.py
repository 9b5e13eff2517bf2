"""compile(): a project's declarations become the plan. Pure: nothing is read, imported or contacted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rivet_dagster.compiler.assembly import check_assembly
from rivet_dagster.compiler.code_version import code_version
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.engines import resolve_engines
from rivet_dagster.compiler.exits import check_exits
from rivet_dagster.compiler.fusion import DEFAULT_MAX_DEPTH, Fusion, fuse_joints, group_sql, joint_sql, order_groups
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.kept import check_kept_assets
from rivet_dagster.compiler.landing import check_landing_readers, check_landing_zones
from rivet_dagster.compiler.materialization import engine_boundaries, materializations
from rivet_dagster.compiler.partitions import check_parameters, check_partition_columns
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint, FusedGroup
from rivet_dagster.compiler.plugin_options import check_declared_tables, check_plugins
from rivet_dagster.compiler.quality import resolve_checks
from rivet_dagster.compiler.references import build_graph
from rivet_dagster.compiler.schemas import JointSchema, infer_schemas
from rivet_dagster.compiler.sensors import check_observations, check_sensors
from rivet_dagster.compiler.strategies import check_strategies
from rivet_dagster.compiler.tables import Tables, check_stored_tables, check_tables
from rivet_dagster.compiler.targets import target_of
from rivet_dagster.model.check import Check
from rivet_dagster.model.introspection import Introspection
from rivet_dagster.model.joint import SINK, SOURCE, Joint
from rivet_dagster.model.landing import landing_options
from rivet_dagster.model.location import Resolved
from rivet_dagster.model.memo import Memo
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project, is_of_block
from rivet_dagster.model.step_options import step_options
from rivet_dagster.model.target import Target


def compile_project(
    project: Project,
    plugins: Plugins,
    memo: Memo | None = None,
    introspection: Introspection | None = None,
    resolved: Resolved | None = None,
) -> CompiledAssembly:
    """The plan of ``project``; where it has errors, a plan without groups that holds all of them.

    Where they are all in the ``dagster:`` block, which no group needs, the plan has its groups.

    ``plugins`` are the traits of the installed catalogs and engines; ``memo`` saves work that an earlier compilation
    did, and never changes the result; ``introspection`` is what catalogs have told of the sources, ``resolved`` where
    tables are on this machine.
    """
    memo = Memo() if memo is None else memo
    introspection = introspection or Introspection()
    found = Diagnostics(list(project.errors), list(introspection.warnings))
    check_plugins(project.profile, plugins, found)
    project = resolve_checks(project, found, memo)
    graph = build_graph(project, found, memo)
    check_assembly(graph, found, memo)
    check_declared_tables(graph, project.profile, plugins, found)
    tables = Tables(project.profile, plugins, resolved or {})
    check_tables(graph, tables, found)
    check_landing_zones(graph, tables, found)
    check_kept_assets(graph, project.dagster.key_prefix, found)
    check_parameters(graph, found)
    check_observations(project.dagster.observe, graph, found)
    check_sensors(project.dagster.sensors, graph, project.profile, plugins, found)
    engines = resolve_engines(graph, project.profile, plugins, found)
    if not all(map(is_of_block, found.errors)):
        return _failed(project, found)

    fusion = fuse_joints(graph, engines, _max_depth(project.profile))
    check_exits(graph, fusion, found)
    check_stored_tables(graph, tables, {name for name, group in fusion.groups.items() if name == group}, found)
    check_landing_readers(graph, fusion, found)
    order, waves = order_groups(graph, fusion)
    members = fusion.members(graph)
    schemas = infer_schemas(graph, fusion, found, memo, introspection)
    check_strategies(graph, schemas, found)
    check_partition_columns(graph, schemas, found)
    if not all(map(is_of_block, found.errors)):
        return _failed(project, found)
    return CompiledAssembly(
        profile=project.profile.name,
        joints=_compiled_joints(project, graph, engines, fusion, schemas),
        fused_groups=tuple(_group(name, members[name], graph, engines, project.profile.workspace) for name in order),
        execution_order=order,
        waves=waves,
        materializations=materializations(graph, fusion, order),
        engine_boundaries=engine_boundaries(graph, fusion, order, engines, project.profile),
        catalogs=project.profile.catalogs,
        engines=project.profile.engines,
        default_engine=project.profile.default_engine,
        workspace=project.profile.workspace,
        dagster=project.dagster,
        errors=found.sorted_errors(),
        warnings=tuple(found.warnings),
    )


def _failed(project: Project, found: Diagnostics) -> CompiledAssembly:
    return CompiledAssembly(profile=project.profile.name, errors=found.sorted_errors(), warnings=tuple(found.warnings))


def _max_depth(profile: Profile) -> dict[str, int]:
    return {e.name: int(e.options.get("max_fusion_depth", DEFAULT_MAX_DEPTH)) for e in profile.engines}


def _compiled_joints(
    project: Project,
    graph: Graph,
    engines: Mapping[str, str],
    fusion: Fusion,
    schemas: Mapping[str, JointSchema],
) -> tuple[CompiledJoint, ...]:
    stored = {name for name, group in fusion.groups.items() if name == group}
    compiled = []
    for name in sorted(graph.joints):
        joint = graph.joints[name]
        query, later, template = graph.queries.get(name), graph.incremental.get(name), graph.templates.get(name)
        function = project.functions.get(name)
        catalog, table = joint.catalog, joint.table
        step, options = step_options(joint.options)
        landing, options = landing_options(options)
        shows_values = project.profile.row_values if joint.row_values is None else joint.row_values
        if joint.type not in (SOURCE, SINK) and name in stored:
            catalog, table = project.profile.workspace, name
        compiled.append(
            CompiledJoint(
                name=name,
                type=joint.type,
                engine=engines[name],
                upstream=graph.upstream[name],
                group=fusion.groups[name],
                asset_group=joint.group or project.asset_groups.get(name, "default"),
                code_version=code_version(joint, graph.upstream[name], query, function, later, template),
                sql=joint_sql(name, graph),
                sql_incremental=later.text if later is not None else None,
                template=template,
                columns=joint.columns,
                filter=joint.filter,
                limit=joint.limit,
                catalog=catalog,
                table=table,
                function=joint.function,
                function_file=function.file if function else None,
                write_strategy=joint.write_strategy,
                partitions=joint.partitions,
                checks=_checks(joint, shows_values),
                options=options,
                step=step,
                landing=landing,
                retention=joint.retention,
                row_values=shows_values,
                schema=schemas[name].schema,
                schema_confidence=schemas[name].confidence,
                lineage=schemas[name].lineage,
                tags=joint.tags,
                description=joint.description,
                owners=joint.owners,
                file=joint.origin.file,
                line=joint.origin.line,
                sql_line=joint.origin.lines.get("sql"),
            )
        )
    return tuple(compiled)


def _checks(joint: Joint, shows_values: bool) -> tuple[Check, ...]:
    """The checks of a joint; the samples of a schema check are no rows."""
    if shows_values:
        return joint.quality
    return tuple(check if check.kind == "schema" else replace(check, samples=0) for check in joint.quality)


def _group(name: str, members: tuple[str, ...], graph: Graph, engines: Mapping[str, str], workspace: str) -> FusedGroup:
    inside = set(members)
    inputs = {u for member in members for u in graph.upstream[member]} - inside
    judged_with = {read for member in members for read in graph.judged_with.get(member, ())} - inputs - inside
    later = {member: graph.incremental[member] for member in members if member in graph.incremental}
    return FusedGroup(
        name=name,
        engine=engines[name],
        joints=members,
        exit=name,
        inputs=tuple(sorted(inputs)),
        judged_with=tuple(sorted(judged_with)),
        target=_target(graph.joints[name], workspace),
        sql=group_sql(name, members, graph),
        sql_incremental=group_sql(name, members, graph, later) if later else None,
    )


def _target(exit_joint: Joint, workspace: str) -> Target | None:
    if exit_joint.type == SOURCE:
        return None
    _, options = step_options(exit_joint.options)
    return target_of(exit_joint, workspace, options)
