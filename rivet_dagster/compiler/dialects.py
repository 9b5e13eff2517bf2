"""The SQL in which each joint is written, and whether its engine runs it."""

from __future__ import annotations

from collections.abc import Mapping

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.model.joint import SPARK_SQL, SQL, Joint
from rivet_dagster.model.plugins import SPARK, Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.project.templating import is_template

_OWN = "Write the joint in Spark's SQL, or run it on an engine of that dialect."


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
    found = joint.dialect or (engine.options.get("dialect") if engine is not None else None)
    return None if found in (None, SPARK_SQL) else str(found)


def check_dialects(
    engines: Mapping[str, str], graph: Graph, profile: Profile, plugins: Plugins, diagnostics: Diagnostics
) -> None:
    """Report RVT-329 for joints on engines that do not run their SQL, and for templates in another SQL than Spark's."""
    for name, engine_name in engines.items():
        joint, spec = graph.joints[name], profile.engine(engine_name)
        traits = plugins.engine(spec)
        if spec is None or traits is None:
            continue
        own = dialect_of(joint, profile) if joint.type == SQL else None
        if own is None and traits.dialect != SPARK and traits.sql_support(spec) is None:
            message = f"the SQL of the engine '{spec.name}' ({spec.type}) is {traits.dialect}, and not {SPARK}"
            diagnostics.error(joint, "RVT-329", message, key="engine")
        if own is not None and joint.sql is not None and is_template(joint.sql):
            message = f"its SQL is {own}, and a template, which only Spark's SQL can be"
            diagnostics.error(joint, "RVT-329", message, key="sql", remediation=_OWN)
        if own is not None and own != traits.dialect:
            message = f"its SQL is {own}, which the engine '{spec.name}' ({spec.type}) does not run"
            diagnostics.error(joint, "RVT-329", message, key="dialect", remediation=_OWN)
