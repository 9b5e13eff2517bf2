"""compile_project(): compile a project's declarations into the plan, without reading files, importing or connecting."""

from __future__ import annotations

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.assembly import check_assembly
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.engines import check_settings, check_storage, resolve_engines
from rivet_dagster.compiler.errors_check import with_errors_checks
from rivet_dagster.compiler.external_assets import check_external_assets
from rivet_dagster.compiler.fusion import DEFAULT_MAX_DEPTH, fuse_joints, order_groups
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.groups import check_exits, fused_group, targets_of
from rivet_dagster.compiler.landing import check_landing_readers, check_landing_zones
from rivet_dagster.compiler.layouts import check_layouts
from rivet_dagster.compiler.materialization import engine_boundaries, materializations
from rivet_dagster.compiler.partitions import check_parameters, check_partition_columns
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.plugin_options import check_declared_tables, check_plugins
from rivet_dagster.compiler.quality import compile_checks
from rivet_dagster.compiler.quarantine import check_error_tables, check_quarantine
from rivet_dagster.compiler.reach import Reach
from rivet_dagster.compiler.references import build_graph
from rivet_dagster.compiler.resolve_joints import resolve_joints
from rivet_dagster.compiler.schemas import infer_schemas
from rivet_dagster.compiler.sensors import check_observations, check_sensors, check_upkeeps
from rivet_dagster.compiler.strategies import check_strategies
from rivet_dagster.compiler.tables import Tables, check_stored_tables, check_tables
from rivet_dagster.model.introspection import Introspection
from rivet_dagster.model.location import Resolved
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project, is_of_block


def compile_project(
    project: Project,
    plugins: Plugins,
    cache: CompileCache | None = None,
    introspection: Introspection | None = None,
    resolved: Resolved | None = None,
) -> CompiledAssembly:
    """Return the plan of ``project``; where it has errors, a plan without groups that holds all of them.

    If all errors are in the ``dagster:`` block, which no group needs, the plan does have its groups.

    ``plugins`` are the traits of the installed catalogs and engines. ``cache`` saves work that an earlier compilation
    did, and never changes the result. ``introspection`` holds the columns of sources that catalogs returned,
    ``resolved`` the locations of tables on this machine.
    """
    cache = CompileCache() if cache is None else cache
    introspection = introspection or Introspection()
    diagnostics = Diagnostics(list(project.errors), list(introspection.warnings))
    check_plugins(project.profile, plugins, diagnostics)
    project, checks = compile_checks(project, diagnostics, cache)
    graph = build_graph(project, diagnostics, cache)
    check_assembly(graph, diagnostics, cache)
    check_declared_tables(graph, project.profile, plugins, diagnostics)
    tables = Tables(project.profile, plugins, resolved or {})
    check_tables(graph, tables, diagnostics)
    check_landing_zones(graph, tables, diagnostics)
    check_external_assets(graph, project.dagster.key_prefix, diagnostics)
    check_parameters(graph, diagnostics)
    check_observations(project.dagster.observe, graph, diagnostics)
    check_upkeeps(project.dagster.upkeeps, project.profile, diagnostics)
    check_sensors(project.dagster.sensors, graph, project.profile, plugins, diagnostics)
    engines = resolve_engines(graph, project.profile, plugins, diagnostics)
    check_settings(graph, engines, project.profile, plugins, diagnostics)
    if not all(map(is_of_block, diagnostics.errors)):
        return _failed(project, diagnostics)

    fusion = fuse_joints(graph, engines, _max_depth(project.profile))
    check_exits(graph, fusion, project.defaults, diagnostics)
    check_stored_tables(graph, tables, {name for name, group in fusion.groups.items() if name == group}, diagnostics)
    check_landing_readers(graph, fusion, diagnostics)
    order, waves = order_groups(graph, fusion)
    members = fusion.members(graph)
    schemas = infer_schemas(graph, fusion, diagnostics, cache, introspection)
    check_strategies(graph, schemas, diagnostics)
    check_partition_columns(graph, schemas, diagnostics)
    reach = Reach(project.profile, plugins)
    check_storage(graph, fusion, engines, reach, diagnostics)
    boundaries = engine_boundaries(graph, fusion, order, engines, reach, diagnostics)
    targets = targets_of(graph, fusion, project.profile, plugins)
    check_layouts(targets, graph, schemas, project.profile, plugins, diagnostics)
    check_error_tables(targets, graph, engines, project.profile, plugins, diagnostics)
    groups = tuple(fused_group(name, members[name], graph, engines, targets.get(name), cache) for name in order)
    check_quarantine(groups, graph, diagnostics)
    if not all(map(is_of_block, diagnostics.errors)):
        return _failed(project, diagnostics)
    checks = with_errors_checks(checks, groups, graph, project.profile)
    return CompiledAssembly(
        profile=project.profile.name,
        joints=resolve_joints(project, graph, engines, fusion, schemas, targets, checks),
        fused_groups=groups,
        execution_order=order,
        waves=waves,
        materializations=materializations(graph, fusion, order),
        engine_boundaries=boundaries,
        catalogs=project.profile.catalogs,
        engines=project.profile.engines,
        default_engine=project.profile.default_engine,
        workspace=project.profile.workspace,
        dagster=project.dagster,
        fail_fast=project.fail_fast,
        variables=_bound_variables(graph, project),
        errors=diagnostics.sorted_errors(),
        warnings=tuple(diagnostics.warnings),
    )


def _bound_variables(graph: Graph, project: Project) -> dict[str, str]:
    used = {name for needs in graph.templates.values() for name in needs.variables}
    return {name: text for name, text in sorted(project.variables.bound.items()) if name in used}


def _failed(project: Project, diagnostics: Diagnostics) -> CompiledAssembly:
    return CompiledAssembly(
        profile=project.profile.name, errors=diagnostics.sorted_errors(), warnings=tuple(diagnostics.warnings)
    )


def _max_depth(profile: Profile) -> dict[str, int]:
    return {e.name: int(e.options.get("max_fusion_depth", DEFAULT_MAX_DEPTH)) for e in profile.engines}
