"""compile_project(): compile a project's declarations into the plan, without reading files, importing or connecting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.assembly import check_assembly
from rivet_dagster.compiler.context import DeclaredContext, GroupsContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.dialects import check_queries_of_checks
from rivet_dagster.compiler.engines import (
    check_declared_tables,
    check_plugins,
    check_settings,
    check_storage,
    resolve_engines,
)
from rivet_dagster.compiler.fusion import (
    DEFAULT_MAX_DEPTH,
    engine_boundaries,
    fuse_joints,
    materializations,
    order_groups,
)
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.groups import check_adoption, check_exits, fused_group, targets_of
from rivet_dagster.compiler.landing import check_external_assets, check_landing_readers, check_landing_zones
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.compiler.quality import compile_checks, with_errors_checks, with_keys_of_queries
from rivet_dagster.compiler.quarantine import check_error_tables, check_quarantine
from rivet_dagster.compiler.reach import Reach
from rivet_dagster.compiler.references import build_graph
from rivet_dagster.compiler.resolve_joints import resolve_joints
from rivet_dagster.compiler.schemas import infer_schemas
from rivet_dagster.compiler.selections import Select, check_selections
from rivet_dagster.compiler.sensors import check_exposures, check_observations, check_sensors, check_upkeeps
from rivet_dagster.compiler.strategies import check_layouts, check_parameters, check_partition_columns, check_strategies
from rivet_dagster.compiler.table_writers import check_stored_tables, check_tables
from rivet_dagster.compiler.tables import Tables
from rivet_dagster.compiler.translations import check_translations
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project, is_of_block
from rivet_dagster.model.schema import Introspection
from rivet_dagster.model.target import Resolved

RULES_OF_DECLARATIONS: tuple[Callable[[DeclaredContext], None], ...] = (
    check_assembly,
    check_declared_tables,
    check_tables,
    check_landing_zones,
    check_external_assets,
    check_parameters,
    check_observations,
    check_upkeeps,
    check_exposures,
    check_sensors,
    check_settings,
)
RULES_OF_GROUPS: tuple[Callable[[GroupsContext], None], ...] = (
    check_exits,
    check_stored_tables,
    check_landing_readers,
    check_strategies,
    check_partition_columns,
    check_storage,
    check_layouts,
    check_error_tables,
    check_adoption,
    check_quarantine,
    check_translations,
)


def compile_project(
    project: Project,
    plugins: Plugins,
    cache: CompileCache | None = None,
    introspection: Introspection | None = None,
    resolved: Resolved | None = None,
    select: Select | None = None,
) -> CompiledAssembly:
    """Return the plan of ``project``; where it has errors, a plan without groups that holds all of them.

    If all errors are in the ``dagster:`` block, which no group needs, the plan does have its groups.

    ``plugins`` are the traits of the installed catalogs and engines. ``cache`` saves work that an earlier compilation
    did, and never changes the result. ``introspection`` holds the columns of sources that catalogs returned,
    ``resolved`` the locations of tables on this machine. ``select`` resolves the selections of the ``dagster:`` block;
    without it they are not judged.
    """
    cache = CompileCache() if cache is None else cache
    introspection = introspection or Introspection()
    diagnostics = Diagnostics(list(project.errors), list(introspection.warnings))
    check_plugins(project.profile, plugins, diagnostics)
    project, checks = compile_checks(project, diagnostics, cache)
    profile, graph = project.profile, build_graph(project, diagnostics, cache)
    tables = Tables(profile, plugins, resolved or {})
    engines = resolve_engines(graph, profile, plugins, diagnostics)
    check_queries_of_checks(checks, engines, profile, plugins, diagnostics)
    declared = DeclaredContext(project, plugins, cache, graph, tables, engines, diagnostics)
    for check_declared in RULES_OF_DECLARATIONS:
        check_declared(declared)
    if not all(map(is_of_block, diagnostics.errors)):
        check_selections(declared, select)
        return _failed(project, diagnostics)

    fusion = fuse_joints(graph, engines, _max_depth(profile))
    order, waves = order_groups(graph, fusion)
    members = fusion.members(graph)
    schemas = infer_schemas(graph, fusion, diagnostics, cache, introspection)
    reach = Reach(profile, plugins)
    boundaries = engine_boundaries(graph, fusion, order, engines, reach, diagnostics)
    targets = targets_of(graph, fusion, profile, plugins)
    groups = tuple(fused_group(name, members[name], graph, engines, targets.get(name), cache) for name in order)
    known = {each.name: getattr(declared, each.name) for each in fields(declared)}
    planned = GroupsContext(**known, fusion=fusion, schemas=schemas, reach=reach, targets=targets, groups=groups)
    for check_planned in RULES_OF_GROUPS:
        check_planned(planned)
    check_selections(planned, select)
    if not all(map(is_of_block, diagnostics.errors)):
        return _failed(project, diagnostics)
    checks = with_keys_of_queries(checks, groups, graph, cache)
    checks = with_errors_checks(checks, groups, graph, project.profile)
    return CompiledAssembly(
        profile=project.profile.name,
        joints=resolve_joints(project, graph, engines, fusion, schemas, targets, checks),
        fused_groups=groups,
        execution_order=order,
        waves=waves,
        materializations=materializations(graph, fusion, order),
        engine_boundaries=boundaries,
        catalogs=profile.catalogs,
        engines=profile.engines,
        default_engine=profile.default_engine,
        workspace=profile.workspace,
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
