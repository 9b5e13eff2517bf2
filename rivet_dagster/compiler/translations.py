"""RVT-329: constructs of joints' SQL that are not proven to have Spark's rows on the engine of the joint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.context import GroupsContext
from rivet_dagster.compiler.plan_json import read
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.joint import SOURCE, SQL, Joint
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.write_plan import Append, ReplaceAll
from rivet_dagster.sql.plain_queries import CHECKS, PLAIN, is_column
from rivet_dagster.sql.target import target_view

Columns = tuple[tuple[str, str | None], ...]


def support_of_engine(name: str, profile: Profile, plugins: Plugins) -> str | None:
    """Return the name of the list by which Spark's SQL runs on an engine of the profile, None where that is Spark."""
    engine = profile.engine(name)
    traits = plugins.engine(engine)
    return None if engine is None or traits is None else traits.sql_support(engine)


def check_translations(context: GroupsContext) -> None:
    """Report RVT-329 for what joints on other engines than Spark have that is not proven to give Spark's rows.

    What depends on types that only a run knows is decided there, before the group's query starts.
    """
    supports = {name: support_of_engine(name, context.profile, context.plugins) for name in {*context.engines.values()}}
    if not any(supports.values()):
        return
    for name, joint in context.graph.joints.items():
        if supports[context.engines[name]] == PLAIN:
            _check_plain(context, joint)
    if {*supports.values()} <= {None, PLAIN}:
        return
    graph = context.graph
    known: dict[str, Columns | None] = {}
    for name in graph.order:
        joint, support = graph.joints[name], supports[context.engines[name]]
        known[name] = _pairs(context.schemas[name].schema)
        if support in (None, PLAIN) or joint.type not in (SQL, SOURCE):
            continue
        upstream: dict[str, Columns | None] = {u: known[u] for u in graph.upstream[name]}
        if joint.type == SOURCE:
            _check_source(context, joint, support)
            continue
        for query in graph.renderings(name):
            if query.dialect is not None:
                continue
            needs = graph.templates.get(name)
            tables = dict(upstream)
            if needs is not None and needs.sink is not None:
                tables[target_view(needs.sink)] = None
            found = _translate(query.text, support, tables, context.cache)
            for line, construct, remedy in found.refusals:
                message = _message(construct, context.engines[name])
                context.diagnostics.in_sql(joint, "RVT-329", message, line, remedy or None, query.lines)
            if found.columns is not None and not _complete(known[name]):
                known[name] = found.columns


_SPARK = "Run it on an engine of Spark, or on DuckDB."


def _check_plain(context: GroupsContext, joint: Joint) -> None:
    """Report what a joint needs beyond plain queries, which are all that its engine runs of Spark's SQL."""
    graph, diagnostics = context.graph, context.diagnostics
    spec = context.profile.engine(context.engines[joint.name])
    traits = context.plugins.engine(spec)
    assert spec is not None and traits is not None
    engine = f"the engine '{spec.name}' ({spec.type})"
    if joint.type == SQL and any(query.dialect is None for query in graph.renderings(joint.name)):
        own = f"its own SQL (`dialect: {traits.dialect}`) or in Python" if "dialect" in traits.options else "Python"
        remedy = f"Write the joint in {own}, or run it on an engine of Spark, or on DuckDB."
        diagnostics.in_sql(joint, "RVT-329", f"its SQL is Spark's, which {engine} does not run", 1, remedy)
    for alias, text in joint.columns:
        if text is not None and not is_column(text):
            message = f"`{alias}` is an expression of Spark's SQL, which {engine} does not run"
            diagnostics.error(joint, "RVT-329", message, f"columns.{alias}", _SPARK)
    if joint.filter is not None:
        message = f"`filter` is an expression of Spark's SQL, which {engine} does not run"
        diagnostics.error(joint, "RVT-329", message, "filter", _SPARK)
    if joint.partitions is not None:
        diagnostics.error(joint, "RVT-329", f"{engine} does not run partitions", "partitions", _SPARK)
    if joint.publishes and not isinstance(joint.write_strategy.plan, ReplaceAll | Append):
        message = f"{engine} does not write by {joint.write_strategy.mode}: it replaces a table, or appends to it"
        diagnostics.error(joint, "RVT-329", message, "write_strategy.mode", _SPARK)
    for check in joint.quality:
        if check.kind not in CHECKS:
            message = f"the check '{check.name}' ({check.kind}) needs SQL that {engine} does not run"
            remedy = f"Check it in a joint on an engine of Spark, or on DuckDB; here run {', '.join(sorted(CHECKS))}."
            diagnostics.errors.append(Diagnostic("RVT-329", message, joint.name, check.file, check.line, remedy))


def _check_source(context: GroupsContext, joint: Joint, support: str) -> None:
    if not any(text for _, text in joint.columns) and joint.filter is None:
        return
    text = context.graph.sql(joint.name) or ""
    for _, construct, remedy in _translate(text, support, {joint.name: None}, context.cache).refusals:
        message = _message(construct, context.engines[joint.name])
        context.diagnostics.error(joint, "RVT-329", message, "columns", remedy or None)


@dataclass(frozen=True)
class _Translated:
    """The line, the construct and the remedy of each certain refusal of a query, and the columns of the query."""

    refusals: tuple[tuple[int, str, str], ...]
    columns: Columns | None


def _translate(text: str, support: str, tables: Mapping[str, Columns | None], cache: CompileCache) -> _Translated:
    """Translate a query, or read from the cache what an earlier compilation found."""
    key = json.dumps((support, text, list(tables.items())))
    cached = cache.get("translation", key)
    if cached is not None:
        known: _Translated = read(_Translated, cached)
        return known
    # A project on Spark alone, and one whose queries are cached, compiles without it at each start.
    from rivet_dagster.sql.translation import translate

    found = translate(text, support, tables)
    certain = tuple((each.line, each.construct, each.remedy) for each in found.refusals if each.certain)
    translated = _Translated(certain, found.columns)
    cache.put("translation", key, asdict(translated))
    return translated


def _message(construct: str, engine: str) -> str:
    return f"the SQL has {construct}, for which Spark's rows are not proven on the engine '{engine}'"


def _pairs(schema: Schema | None) -> Columns | None:
    return None if schema is None else tuple((field.name, field.type) for field in schema)


def _complete(columns: Columns | None) -> bool:
    return columns is not None and all(kind is not None for _, kind in columns)
