"""The engine of each joint, and whether it can use the joint's catalog.

Validation of the profile's catalogs and engines: installed types, known options, and no literal secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rivet_dagster.compiler.context import DeclaredContext, GroupsContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.dialects import check_dialects
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.entry_points import is_unexpanded, unknown_options
from rivet_dagster.errors import nearest
from rivet_dagster.model.external_assets import DAGSTER
from rivet_dagster.model.inputs import landing_options
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.plugins import CatalogTraits, EngineTraits, Plugins, Wrong
from rivet_dagster.model.profile import CatalogSpec, EngineSpec, Profile
from rivet_dagster.model.step_options import step_options
from rivet_dagster.model.target import PUBLISH
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.secrets.variables import literal_secrets


def resolve_engines(graph: Graph, profile: Profile, plugins: Plugins, diagnostics: Diagnostics) -> dict[str, str]:
    """Return the engine of each joint, "" where it has none; report RVT-308, RVT-309, RVT-312, RVT-329."""
    engines: dict[str, str] = {}
    for joint in graph.joints.values():
        if joint.type != SOURCE or joint.engine:
            engines[joint.name] = _resolve(joint, joint.engine or profile.default_engine, profile, diagnostics)
    for joint in graph.joints.values():
        if joint.name not in engines:
            readers = {engines[name] for name in graph.consumers[joint.name] if name in engines}
            agreed = next(iter(readers)) if len(readers) == 1 else profile.default_engine
            # The missing engine of a reader has been reported for the reader.
            engines[joint.name] = "" if "" in readers else _resolve(joint, agreed, profile, diagnostics)
    check_dialects(engines, graph, profile, plugins, diagnostics)
    for joint in graph.joints.values():
        if joint.catalog is not None and joint.catalog != DAGSTER:
            _check_catalog(joint, engines[joint.name], profile, plugins, diagnostics)
    return engines


def _resolve(joint: Joint, name: str | None, profile: Profile, diagnostics: Diagnostics) -> str:
    if not name:
        diagnostics.error(joint, "RVT-308", "no engine: the joint names none and the profile has no default_engine")
        return ""
    if profile.engine(name) is None:
        known = nearest(name, [engine.name for engine in profile.engines])
        diagnostics.error(joint, "RVT-308", f"the profile '{profile.name}' has no engine '{name}'{known}", key="engine")
        return ""
    return name


def check_storage(context: GroupsContext) -> None:
    """Report RVT-328 for joints whose engine cannot read, or write, the tables of their catalog.

    A source with a group of its own is read by other joints; rows that are checked, or that do not simply replace the
    table, are read again after they are written.
    """
    fusion, engines = context.fusion, context.engines
    reach, diagnostics = context.reach, context.diagnostics
    for name, joint in context.graph.joints.items():
        if joint.type == SOURCE:
            if (joint.quality or name != fusion.groups[name]) and not reach.reads(engines[name], joint.catalog):
                diagnostics.error(joint, "RVT-328", f"the engine '{engines[name]}' cannot read its table", key="engine")
        elif name == fusion.groups[name]:
            again = bool(joint.quality) or not joint.write_strategy.replaces_all or joint.partitions is not None
            engine, catalog = engines[name], joint.catalog
            if not reach.writes(engine, catalog) or (again and not reach.reads(engine, catalog)):
                message = f"the engine '{engines[name]}' cannot store, and read again, what it gives"
                diagnostics.error(joint, "RVT-328", message, key="engine")


def check_settings(context: DeclaredContext) -> None:
    """Report RVT-204 for settings of a joint's `config` that sessions of its engine do not take."""
    for name, joint in context.graph.joints.items():
        config = step_options(joint.options)[0].config if joint.options else {}
        traits = context.plugins.engine(context.profile.engine(context.engines[name])) if config else None
        if traits is not None:
            for key, sentence in traits.wrong_settings(config).items():
                context.diagnostics.error(
                    joint, "RVT-204", f"`config`: `{key}` {sentence}", key=f"options.config.{key}"
                )


def _check_catalog(
    joint: Joint, engine_name: str, profile: Profile, plugins: Plugins, diagnostics: Diagnostics
) -> None:
    catalog = profile.catalog(joint.catalog or "")
    if catalog is None:
        known = nearest(joint.catalog or "", [c.name for c in profile.catalogs])
        message = f"the profile '{profile.name}' has no catalog '{joint.catalog}'{known}"
        diagnostics.error(joint, "RVT-309", message, key="catalog")
        return
    engine = profile.engine(engine_name)
    if engine is not None and catalog.name not in (*engine.catalogs, profile.workspace):
        message = f"the engine '{engine.name}' does not reach the catalog '{catalog.name}'"
        diagnostics.error(joint, "RVT-309", message, key="catalog")
    traits = plugins.catalogs.get(catalog.type)
    mode = joint.write_strategy.mode
    if joint.publishes and traits is not None and mode not in traits.strategies:
        able = ", ".join(sorted(traits.strategies))
        cannot = f"cannot do {mode}; it can: {able}" if able else "publishes no tables"
        message = f"the catalog '{catalog.name}' ({catalog.type}) {cannot}"
        diagnostics.error(joint, "RVT-312", message, key="write_strategy.mode")
    elif joint.publishes and traits is not None:
        refused = traits.refuses_write(catalog.options, joint.write_strategy)
        if refused is not None:
            message = f"the catalog '{catalog.name}' ({catalog.type}) {refused}"
            diagnostics.error(joint, "RVT-312", message, key="write_strategy.mode")


def _refused(
    engine: EngineTraits | None,
    plugins: Plugins,
    catalog: CatalogSpec,
    table: str,
    joint_options: Mapping[str, Any],
    joint: Joint,
) -> Iterable[Wrong]:
    """Return why the engine cannot read, or write, the table of a joint."""
    if engine is None:
        return ()
    format = (
        None if joint.publishes else plugins.catalogs[catalog.type].file_format(catalog.options, table, joint_options)
    )
    return engine.refuses_table(catalog, format, joint_options, joint.publishes)


_OWN_KEYS = {
    "catalog": frozenset({"type"}),
    "engine": frozenset({"name", "type", "catalogs", "concurrency_limit", "options"}),
}
"""The keys that every type has."""


def check_plugins(profile: Profile, plugins: Plugins, diagnostics: Diagnostics) -> None:
    """Report RVT-109 for a type that is not installed; RVT-103, 104 and 105 for unknown, wrong and missing options.

    Warn with RVT-125 of each secret that is written literally.
    """
    for catalog in profile.catalogs:
        origin = profile.catalog_origins.get(catalog.name, profile.origin)
        _check("catalog", catalog, plugins.catalogs, origin, diagnostics)
        if is_unexpanded(catalog.options.get(PUBLISH)):
            message = f"catalog '{catalog.name}': `{PUBLISH}` must be written out: the plan depends on it"
            diagnostics.errors.append(origin.diagnostic("RVT-104", message, key=PUBLISH))
    for engine in profile.engines:
        origin = profile.engine_origins.get(engine.name, profile.origin)
        _check("engine", engine, plugins.engines, origin, diagnostics)
        able = plugins.engine(engine)
        used = [spec for name in engine.catalogs if (spec := profile.catalog(name)) is not None]
        if able is not None and (why := able.refuses_catalogs(used)) is not None:
            message = f"engine '{engine.name}': `catalogs` {why}"
            diagnostics.errors.append(origin.diagnostic("RVT-104", message, key="catalogs"))


def check_declared_tables(context: DeclaredContext) -> None:
    """Have catalogs and engines validate the tables that joints read or publish, and what the workspace can hold."""
    graph, profile = context.graph, context.profile
    plugins, diagnostics = context.plugins, context.diagnostics
    for joint in graph.joints.values():
        spec = profile.catalog(joint.catalog) if joint.catalog is not None else None
        if spec is not None and spec.type in plugins.catalogs:
            joint_options = landing_options(step_options(joint.options)[1])[1]
            table = str(joint.table)
            for error in plugins.catalogs[spec.type].check_table(spec.options, table, joint_options, joint.publishes):
                diagnostics.error(joint, error.code, error.message, error.key, error.remediation)
            engine = profile.engine(context.engines[joint.name])
            able = plugins.engine(engine)
            for error in _refused(able, plugins, spec, table, joint_options, joint):
                message = f"the engine '{engine.name if engine else ''}' {error.message}"
                diagnostics.error(joint, error.code, message, error.key, error.remediation)
    spec = profile.catalog(profile.workspace)
    if spec is not None and spec.type in plugins.catalogs:
        for error in plugins.catalogs[spec.type].check_table(spec.options, "joint", {}, True):
            message = f"`workspace`: nothing can be stored in '{spec.name}': {error.message}"
            remedy = "Name another catalog of the profile as its `workspace`, or none."
            diagnostics.errors.append(
                profile.origin.diagnostic(error.code, message, key="workspace", remediation=remedy)
            )


def _check(
    kind: str,
    spec: CatalogSpec | EngineSpec,
    installed: Mapping[str, CatalogTraits] | Mapping[str, EngineTraits],
    origin: Origin,
    diagnostics: Diagnostics,
) -> None:
    for path, _ in literal_secrets(spec.options):
        message = f"{kind} '{spec.name}': `{'.'.join(path)}` holds a secret that whoever reads the file sees"
        diagnostics.warnings.append(origin.diagnostic("RVT-125", message, key=path[0]))
    traits = installed.get(spec.type)
    if traits is None:
        known = nearest(spec.type, installed)
        message = f"{kind} '{spec.name}' is of type '{spec.type}', which is not installed{known}"
        diagnostics.errors.append(origin.diagnostic("RVT-109", message, key="type"))
        return
    for key in unknown_options(spec.options, traits.options, traits.other_options):
        known = nearest(key, traits.options | _OWN_KEYS[kind])
        message = f"{kind} '{spec.name}' has the unknown option '{key}'{known}"
        diagnostics.errors.append(origin.diagnostic("RVT-103", message, key=key))
    if isinstance(traits, EngineTraits):
        traits = traits.variant(spec.options) or traits
    for key, sentence in traits.check(spec.options).items():
        message = f"{kind} '{spec.name}': `{key}` {sentence}"
        diagnostics.errors.append(origin.diagnostic("RVT-104" if key in spec.options else "RVT-105", message, key=key))
