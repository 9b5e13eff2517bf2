"""The rules of sensors, observations, upkeep and exposures: they name sources, files, catalogs and joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rivet_dagster.compiler.context import DeclaredContext
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.errors import nearest
from rivet_dagster.model.automation import Sensor
from rivet_dagster.model.external_assets import Stored, is_external
from rivet_dagster.model.joint import SOURCE

BY_VERSION = "Use `type: source_changed`, where the catalog tells a version of its data."


def check_sensors(context: DeclaredContext) -> None:
    """Report RVT-117 for a sensor on a joint that is no source, RVT-104 for one on files that cannot be listed."""
    sensors, graph, diagnostics = context.project.dagster.sensors, context.graph, context.diagnostics
    profile, plugins = context.profile, context.plugins
    for sensor in sensors.source_changed:
        for name in sensor.sources:
            _refuse(sensor, "sources", "RVT-117", wrong_source(name, graph.joints), diagnostics)
    for watch in sensors.files:
        why = wrong_source(watch.source, graph.joints)
        _refuse(watch, "source", "RVT-117", why, diagnostics)
        if why is None:
            joint = graph.joints[watch.source]
            spec = profile.catalog(joint.catalog or "")
            traits = plugins.catalogs.get(spec.type) if spec else None
            unlisted = traits.refuses_listing(spec.options, joint.table or "") if spec and traits else None
            _refuse(
                watch, "source", "RVT-104", unlisted and not_listed(watch.source, unlisted), diagnostics, BY_VERSION
            )


def check_observations(context: DeclaredContext) -> None:
    """Report RVT-117 for an observation of a joint that is no source."""
    for schedule in context.project.dagster.observe:
        why = wrong_observation(schedule.sources, context.graph.joints)
        if why is not None:
            message = f"observation '{schedule.name}': {why}"
            context.diagnostics.errors.append(schedule.origin.diagnostic("RVT-117", message, key="sources"))


def check_upkeeps(context: DeclaredContext) -> None:
    """Report RVT-104 for an upkeep of a catalog that the profile does not have; one without upkeep is no error."""
    known = [spec.name for spec in context.profile.catalogs]
    for schedule in context.project.dagster.upkeeps:
        for name in schedule.catalogs:
            if name not in known:
                hint = nearest(name, known)
                message = f"schedule '{schedule.name}': `catalogs`: the profile has no catalog '{name}'{hint}"
                context.diagnostics.errors.append(schedule.origin.diagnostic("RVT-104", message, key="catalogs"))


def check_exposures(context: DeclaredContext) -> None:
    """Report RVT-306 for an exposure of a joint that does not exist, RVT-104 for one with the name of a joint."""
    joints, errors = context.graph.joints, context.diagnostics.errors
    for exposure in context.project.dagster.exposures:
        subject = f"exposure '{exposure.name}'"
        if exposure.name in joints:
            message = f"{subject}: there is a joint of that name, whose asset key it would have"
            errors.append(exposure.origin.diagnostic("RVT-104", message, remediation="Rename one of them."))
        for name in exposure.depends_on:
            if name not in joints:
                message = f"{subject}: `depends_on`: there is no joint '{name}'{nearest(name, joints)}"
                errors.append(exposure.origin.diagnostic("RVT-306", message, key="depends_on"))


def wrong_observation(names: Sequence[str], joints: Mapping[str, Stored]) -> str | None:
    """Return why ``names`` cannot be observed, None where they can; ``joints`` are all joints by name."""
    known = [name for name, joint in joints.items() if joint.type == SOURCE and not is_external(joint)]
    wrong = []
    for name in names:
        if name not in joints:
            wrong.append(f"there is no source '{name}'{nearest(name, known)}")
        elif joints[name].type != SOURCE:
            wrong.append(f"'{name}' is of type {joints[name].type}: it is made, not observed")
        elif is_external(joints[name]):
            wrong.append(f"'{name}' is the asset {joints[name].table}, which reports its own materializations")
    return "; ".join(wrong) or (None if names else "no source is named")


def wrong_source(name: str, joints: Mapping[str, Stored]) -> str | None:
    """Return why ``name`` cannot be watched for new data, None where it can; ``joints`` are all joints by name.

    >>> from rivet_dagster.model.joint import Joint
    >>> wrong_source("order", {"orders": Joint(name="orders", type="source", catalog="raw", table="orders")})
    "there is no source 'order'; did you mean 'orders'?"
    """
    joint = joints.get(name)
    if joint is None:
        sources = [source for source, other in joints.items() if other.type == SOURCE]
        return f"there is no source '{name}'{nearest(name, sources)}"
    if joint.type != SOURCE:
        return f"'{name}' is no source, it is made here: the type after_success waits for it"
    if is_external(joint):
        return f"'{name}' is another Dagster asset, whose materializations tell of it: `dg.asset_sensor` waits for them"
    return None


def not_listed(source: str, why: str) -> str:
    """Return the message for a source whose files its catalog cannot list, with the reason ``why``."""
    return f"the files of '{source}' cannot be listed: {why}"


def _refuse(
    sensor: Sensor, key: str, code: str, why: str | None, diagnostics: Diagnostics, remediation: str | None = None
) -> None:
    if why is not None:
        message = f"sensor '{sensor.name}': `{key}`: {why}"
        diagnostics.errors.append(sensor.origin.diagnostic(code, message, key=key, remediation=remediation))
