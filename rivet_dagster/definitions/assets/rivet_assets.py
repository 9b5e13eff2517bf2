"""@rivet_assets: each fused group as a multi-asset whose step runs the user's function, and sources as assets.

For assets that something else materializes there are the joints' specs alone.
"""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dagster as dg

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.plan import CompiledJoint, FusedGroup
from rivet_dagster.definitions.assets.groups import RivetGroupRun, group_step_name
from rivet_dagster.definitions.check_steps import publishing_step, source_checks
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import ENGINE_TAG, engine_keys, engine_pool
from rivet_dagster.definitions.runs.failure import failure, rivet_failures
from rivet_dagster.definitions.runs.identity import mark_run, step_name
from rivet_dagster.definitions.specs.selection import beta_accepted
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.group_run import reads
from rivet_dagster.execution.progress import ProgressListener
from rivet_dagster.execution.reading.sources import data_version
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.external_assets import is_external
from rivet_dagster.model.joint import SOURCE

Body = Callable[..., Iterable[Any]]
"""The function that a group's step runs: it takes the step's context and a RivetGroupRun, and yields events."""


CONFIG = "config"
"""The name of the parameter to which Dagster passes a step's config."""


@dataclass(frozen=True)
class StepSettings:
    """The settings of all steps of a project; see ``rivet_assets``."""

    required_resource_keys: frozenset[str] = frozenset()
    op_tags: Mapping[str, Any] = field(default_factory=dict)
    pool: str | None = None
    description: str | None = None
    backfill_policy: dg.BackfillPolicy | None = None


def rivet_assets(
    project: RivetProject,
    *,
    select: str | None = None,
    exclude: str | None = None,
    required_resource_keys: Iterable[str] = (),
    op_tags: Mapping[str, Any] | None = None,
    pool: str | None = None,
    backfill_policy: dg.BackfillPolicy | None = None,
) -> Callable[[Body], list[dg.AssetsDefinition]]:
    """Decorate a function that runs the steps of a project; the result is the list of the project's assets.

    The function takes the step's context and a ``RivetGroupRun``, and yields the step's events; it is called once for
    each fused group of a run. It can add metadata, send alerts, skip or repeat a group. Its further parameters are
    resources by key, and ``config`` is the step's config; ``required_resource_keys`` are resources that it takes from
    ``context.resources``.

    ``select`` and ``exclude`` are selections in Dagster's syntax: only the selected joints are assets, including
    sources with their checks. ``op_tags`` are added to every group's step. ``pool`` replaces the pool of the engine,
    unless the ``options`` of a group's exit name a pool. ``backfill_policy`` is that of groups with partitions, by
    default a single run.

    Pass the assets to Definitions together with ``rivet_resources(project)``. Raises RVT-115, and RVT-121 if the
    function's parameters do not fit.

    >>> project = RivetProject.load("example_repo")
    >>> @rivet_assets(project, select="group:fleet")
    ... def fleet(context: dg.AssetExecutionContext, group: RivetGroupRun):
    ...     context.log.info(f"{group.name} begins")
    ...     yield from group.run(context)
    >>> sorted(key.to_user_string() for asset in fleet for key in asset.keys)
    ['aircraft_usage', 'fleet']
    """

    def decorate(body: Body) -> list[dg.AssetsDefinition]:
        keys = frozenset(required_resource_keys)
        settings = StepSettings(keys, op_tags or {}, pool, None, backfill_policy)
        return project_assets(project.part(select, exclude), body, settings)

    return decorate


def group_body(context: dg.AssetExecutionContext, group: RivetGroupRun) -> Iterator[Any]:
    """Run a group; the body of steps without a function of the user."""
    yield from group.run(context)


def project_assets(
    project: RivetProject, body: Body, settings: StepSettings | None = None, listeners: Sequence[ProgressListener] = ()
) -> list[dg.AssetsDefinition]:
    """Return the selected sources, a multi-asset for the selected joints of each group, and checks of gated sources.

    ``listeners`` are told phases and the progress of writes, which is also logged. Raises RVT-121.
    """
    parameters = _own_parameters(body, project)
    settings = settings or StepSettings()
    keys = settings.required_resource_keys | engine_keys(project.assembly) | (parameters.keys() - {CONFIG})
    settings = replace(settings, required_resource_keys=keys)
    groups = []
    for group in project.assembly.fused_groups:
        joints = [project.assembly.joint(name) for name in group.joints if name in project.selected]
        made = tuple(joint for joint in joints if joint.type != SOURCE)
        if made:
            groups.append(_group_assets(project, group, made, body, parameters, settings, listeners))
    return [*source_assets(project), *groups, *source_checks(project), *publishing_step(project)]


def _group_assets(
    project: RivetProject,
    group: FusedGroup,
    joints: tuple[CompiledJoint, ...],
    body: Body,
    parameters: Mapping[str, inspect.Parameter],
    settings: StepSettings,
    listeners: Sequence[ProgressListener],
) -> dg.AssetsDefinition:
    """Return the multi-asset of the joints of a group that are assets here, without sources."""
    assembly = project.assembly
    read = reads(assembly, group, [joint.name for joint in joints])
    stored = [name for name in group.before if name in read & project.selected and assembly.joint(name).type != SOURCE]
    about = f"{len(joints)} joint{'s' if len(joints) > 1 else ''} as one query on '{group.engine}'"

    errors = [spec for joint in joints if (spec := project.errors_spec(joint.name)) is not None]

    def run(context: dg.AssetExecutionContext, **given: Any) -> Iterator[Any]:
        others = {name: given.pop(name) if name == CONFIG else getattr(context.resources, name) for name in parameters}
        events = body(context, RivetGroupRun(project, group.name, joints, given, listeners), **others)
        if events is None:
            raise failure(_misfit(body, "gives nothing: neither its own events nor those of `group.run(context)`"))
        yield from events

    _set_signature(run, parameters.get(CONFIG))
    return dg.multi_asset(
        name=group_step_name(project, joints),
        specs=[*(project.asset_spec(joint.name) for joint in joints), *errors],
        check_specs=[project.check_spec(check, joint.name) for joint in joints for check in joint.checks],
        # An input's name must be valid and unique, as the joint's name is. Joints that are not assets here cannot be
        # inputs, and are read from storage.
        ins={name: dg.AssetIn(project.key(name)) for name in stored},
        can_subset=True,
        backfill_policy=_backfill_policy(joints[-1], settings),
        required_resource_keys=set(settings.required_resource_keys),
        op_tags=_op_tags(settings, group),
        pool=assembly.joint(group.exit).step.pool or settings.pool or engine_pool(group.engine),
        description=settings.description or about,
    )(run)


def _backfill_policy(exit_joint: CompiledJoint, settings: StepSettings) -> dg.BackfillPolicy | None:
    if exit_joint.partitions is None:
        return None
    return settings.backfill_policy or dg.BackfillPolicy.single_run()


def _op_tags(settings: StepSettings, group: FusedGroup) -> Mapping[str, Any]:
    if ENGINE_TAG in settings.op_tags:
        raise RivetError(
            "RVT-104", f"the tag '{ENGINE_TAG}' of a step says on which engine it runs; it is no one's to set"
        )
    return {**settings.op_tags, ENGINE_TAG: group.engine}


def _own_parameters(body: Body, project: RivetProject) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function besides the context and the group: a config, and resources by key."""
    parameters = list(inspect.signature(body, eval_str=True).parameters.values())
    if len(parameters) < 2 or parameters[0].name != "context":
        raise _misfit(body, "must take `context` and, second, the group")
    for parameter in parameters[2:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _misfit(body, f"has the parameter '{parameter}', which nobody gives by name")
        if parameter.name in project.joints.values():
            raise _misfit(body, f"has a parameter named as the joint '{parameter.name}': take it from `group.given`")
        if parameter.name == CONFIG and parameter.annotation is parameter.empty:
            raise _misfit(body, "does not say by an annotation what its `config` is")
    return {parameter.name: parameter for parameter in parameters[2:]}


def _set_signature(step: Callable[..., Any], config: inspect.Parameter | None) -> None:
    """Set the step's signature, which Dagster asks for fifteen times, with a parameter for its config, if it has one.

    Dagster looks for a config in the signature; resources are required by key instead.
    """
    context, given = inspect.signature(step).parameters.values()
    named = [config.replace(kind=inspect.Parameter.KEYWORD_ONLY)] if config is not None else []
    vars(step)["__signature__"] = inspect.Signature([context, *named, given])
    if config is not None:
        step.__annotations__[CONFIG] = config.annotation


def _misfit(body: Body, message: str) -> RivetError:
    code = getattr(inspect.unwrap(body), "__code__", None)
    origin = {"file": code.co_filename, "line": code.co_firstlineno} if code is not None else {}
    return RivetError("RVT-121", f"the function '{getattr(body, '__name__', body)}' {message}", **origin)


def source_assets(project: RivetProject) -> list[dg.AssetsDefinition]:
    """Return one multi-asset for the sources of each catalog, which observes them without an engine.

    Sources that are external assets are left out, since those have events of their own.
    """
    by_catalog: dict[str, list[SourceJoint]] = {}
    for joint in project.assembly.joints:
        if isinstance(joint, SourceJoint) and not is_external(joint):
            by_catalog.setdefault(joint.catalog, []).append(joint)
    with beta_accepted():
        return [
            _observation(project, _observation_name(project, name, sources), chosen)
            for name, sources in by_catalog.items()
            if (chosen := [joint for joint in sources if joint.name in project.selected])
        ]


def _observation_name(project: RivetProject, catalog: str, sources: list[SourceJoint]) -> str:
    """Return the step's name: the catalog's; if only a part of its sources is selected, with the first of them."""
    chosen = [joint.name for joint in sources if joint.name in project.selected]
    return step_name(project.assembly, "observe", catalog, *(chosen[:1] if len(chosen) < len(sources) else []))


def _observation(project: RivetProject, name: str, sources: list[SourceJoint]) -> dg.AssetsDefinition:
    by_key = {project.key(joint.name): joint for joint in sources}

    def observe(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        runtime = Runtime(project.assembly, project.root, environment=project.environment)
        mark_run(project, context.run, context.instance)
        for key in sorted(context.selected_asset_keys):
            with rivet_failures():
                version = data_version(runtime, by_key[key])
            yield dg.ObserveResult(asset_key=key, data_version=dg.DataVersion(version))

    specs = [project.asset_spec(joint.name) for joint in sources]
    decorate = dg.multi_observable_source_asset(name=name, specs=specs, can_subset=True)
    observation: dg.AssetsDefinition = decorate(observe)
    return observation


def build_rivet_asset_specs(
    project: RivetProject, select: str | None = None, exclude: str | None = None
) -> list[dg.AssetSpec]:
    """Return the specs of the selected joints, including sources, in topological order.

    ``select`` and ``exclude`` are selections in Dagster's syntax. The specs name no IO manager: given to
    Definitions, they are external assets. Raises RVT-115.

    >>> project = RivetProject.load("example_repo")
    >>> [spec.key.to_user_string() for spec in build_rivet_asset_specs(project, "kind:python")]
    ['route_bad_days', 'great_circles']
    """
    part = project.part(select, exclude)
    return [part.spec(name) for name in part.names]
