"""The SQL in which each joint is written, and whether its engine runs it, and what else of a joint is SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.check_plan import ByQuery, CompiledCheck, InOnePass, one_pass
from rivet_dagster.model.joint import PYTHON, SOURCE, SPARK_SQL, SQL, Joint
from rivet_dagster.model.plugins import EngineTraits, Plugins
from rivet_dagster.model.profile import EngineSpec, Profile
from rivet_dagster.project.templating import is_template

_OWN = "Write the joint in Spark's SQL, or run it on an engine of that dialect."
_OF_SPARK = "Run the joint on an engine of Spark."


def dialect_of(joint: Joint, profile: Profile) -> str | None:
    """Return sqlglot's name of the SQL of a joint: its own, else its engine's option; None for Spark's.

    >>> from rivet_dagster.model.profile import EngineSpec
    >>> profile = Profile("p", (), (EngineSpec("duck", "duckdb", options={"dialect": "duckdb"}),), "duck")
    >>> dialect_of(Joint(name="a", type="sql", sql="SELECT 1"), profile)
    'duckdb'
    >>> dialect_of(Joint(name="a", type="sql", sql="SELECT 1", dialect="spark"), profile) is None
    True
    """
    engine = profile.engine(joint.engine or profile.default_engine or "")
    dialect = joint.dialect or (engine.options.get("dialect") if engine is not None else None)
    return None if dialect in (None, SPARK_SQL) else str(dialect)


def check_dialects(
    engines: Mapping[str, str], graph: Graph, profile: Profile, plugins: Plugins, diagnostics: Diagnostics
) -> None:
    """Report RVT-329 for joints on engines that do not run their SQL, and for templates in another SQL than Spark's."""
    declared = _declared_engines(engines, profile, plugins)
    for name, engine_name in engines.items():
        if engine_name not in declared:
            continue
        joint, (spec, traits) = graph.joints[name], declared[engine_name]
        dialect = dialect_of(joint, profile) if joint.type == SQL else None
        if joint.type != SOURCE and traits.runs_native_sql_alone:
            _refuse_spark_sql(joint, dialect, spec, traits, diagnostics)
        if dialect is not None and joint.sql is not None and is_template(joint.sql):
            message = f"its SQL is {dialect}, and a template, which only Spark's SQL can be"
            diagnostics.error(joint, "RVT-329", message, key="sql", remediation=_OWN)
        if dialect is not None and dialect != traits.dialect:
            message = f"its SQL is {dialect}, which the engine '{spec.name}' ({spec.type}) does not run"
            diagnostics.error(joint, "RVT-329", message, key="dialect", remediation=_OWN)
        for read in graph.upstream[name] if traits.runs_native_sql_alone else ():
            _refuse_transforms(graph.joints[read], spec, diagnostics)


def _declared_engines(
    engines: Mapping[str, str], profile: Profile, plugins: Plugins
) -> dict[str, tuple[EngineSpec, EngineTraits]]:
    """Return the engines that joints are on, by name, with their traits; without those that are not declared."""
    specs = [spec for name in {*engines.values()} if (spec := profile.engine(name)) is not None]
    return {spec.name: (spec, traits) for spec in specs if (traits := plugins.engine(spec)) is not None}


def _refuse_spark_sql(
    joint: Joint, dialect: str | None, spec: EngineSpec, traits: EngineTraits, diagnostics: Diagnostics
) -> None:
    """Report what of a joint is Spark's SQL, or Python, on an engine that runs its own SQL alone."""
    engine = f"the engine '{spec.name}' ({spec.type})"
    if joint.type == SQL and dialect is None:
        message = f"its SQL is Spark's, and {engine} runs {traits.dialect} alone"
        remedy = f"Write it in that SQL, with `dialect: {traits.dialect}`; or run it on an engine of Spark."
        diagnostics.error(joint, "RVT-329", message, key="engine", remediation=remedy)
    elif joint.type == PYTHON:
        message = f"it is Python, and {engine} runs SQL alone"
        diagnostics.error(joint, "RVT-329", message, key="engine", remediation=_OF_SPARK)


def _refuse_transforms(source: Joint, spec: EngineSpec, diagnostics: Diagnostics) -> None:
    if source.type != SOURCE:
        return
    keys = [f"columns.{alias}" for alias, text in source.columns if text is not None]
    for key in (*keys, *(["filter"] if source.filter is not None else [])):
        message = f"`{key}` is Spark's SQL, which the engine '{spec.name}' ({spec.type}) of a reader does not run"
        remedy = "Write it in the joint that reads the source; or run that on an engine of Spark."
        diagnostics.error(source, "RVT-329", message, key=key, remediation=remedy)


def check_queries_of_checks(
    checks: Mapping[str, tuple[CompiledCheck, ...]],
    engines: Mapping[str, str],
    profile: Profile,
    plugins: Plugins,
    diagnostics: Diagnostics,
) -> None:
    """Report RVT-329 for checks whose SQL their engine refuses."""
    declared = _declared_engines(engines, profile, plugins)
    for name, engine_name in engines.items():
        if not checks[name] or engine_name not in declared:
            continue
        spec, traits = declared[engine_name]
        for check in checks[name]:
            construct = next(filter(None, map(traits.refuses_check, _queries(name, check))), None)
            if construct is not None:
                message = f"check {check.name}: {construct} in Spark's SQL may mean something else on '{spec.name}'"
                remedy = "Write it with comparisons of columns and constants, AND, OR, NOT and IN; or compute a column."
                at = check.sql_line or check.line
                diagnostics.errors.append(Diagnostic("RVT-329", message, name, check.file, at, remedy))


def _queries(joint: str, check: CompiledCheck) -> Iterator[str]:
    match check.queries.counting:
        case InOnePass() as aggregate:
            yield one_pass(f"`{joint}`", [aggregate]).sql
        case ByQuery(query=query):
            yield query.sql
