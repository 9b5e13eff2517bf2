"""The engine of each joint, and whether it can use the joint's catalog."""

from __future__ import annotations

from collections.abc import Mapping

from rivet_dagster.compiler.context import DeclaredContext, GroupsContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.errors import nearest
from rivet_dagster.model.external_assets import DAGSTER
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.plugins import SPARK, Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.step_options import step_options


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
    _check_dialects(engines, graph, profile, plugins, diagnostics)
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
        engine = context.profile.engine(context.engines[name]) if config else None
        traits = None if engine is None else context.plugins.engines.get(engine.type)
        if traits is not None:
            for key, sentence in traits.wrong_settings(config).items():
                context.diagnostics.error(
                    joint, "RVT-204", f"`config`: `{key}` {sentence}", key=f"options.config.{key}"
                )


def _check_dialects(
    engines: Mapping[str, str], graph: Graph, profile: Profile, plugins: Plugins, diagnostics: Diagnostics
) -> None:
    others: dict[str, str] = {}
    for engine in profile.engines:
        facts = plugins.engines.get(engine.type)
        if facts is not None and facts.dialect != SPARK:
            message = f"the SQL of the engine '{engine.name}' ({engine.type}) is {facts.dialect}, and not {SPARK}"
            others[engine.name] = message
    for name, engine_name in engines.items() if others else ():
        if engine_name in others:
            diagnostics.error(graph.joints[name], "RVT-329", others[engine_name], key="engine")


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
