"""RivetProjectComponent: the component with which ``dg`` scaffolds, and loads, a project's definitions.

Its state is the compiled plan.
"""

# No `from __future__ import annotations` here: Dagster reads the annotations of the attributes.

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from dagster.components import (
    DefsStateConfig,
    DefsStateConfigArgs,
    ResolvedDefsStateConfig,
    Scaffolder,
    ScaffoldRequest,
    scaffold_component,
    scaffold_with,
)
from dagster.components.resolved.core_models import OpSpec
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import BaseModel, Field

from rivet_dagster.collector import without_collector
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.compiler.plan_json import fingerprint
from rivet_dagster.definitions.assets.groups import RivetGroupRun
from rivet_dagster.definitions.assets.rivet_assets import StepSettings
from rivet_dagster.definitions.load import GENERATED, build_definitions, refuse_problems
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator, TranslationContext
from rivet_dagster.errors import RivetError
from rivet_dagster.file_replacement import replace_file
from rivet_dagster.loading import compile_directory
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.project.environment_name import environment_name
from rivet_dagster.project.profiles import chosen_profile
from rivet_dagster.version import __version__

_MADE_BY = f"rivet_dagster {__version__} {fingerprint(CompiledAssembly)}"
"""The version that made a plan, and the shape of its plans, which differs between two states of development, too."""


def write_state(path: Path, assembly: CompiledAssembly) -> None:
    """Write a plan and the version that made it, atomically: a reader sees either the old or the new plan.

    A plan whose secrets are left out cannot be run, and is marked as such.
    """
    made_by = f"{_MADE_BY}, without its secrets" if assembly.holds_secrets else _MADE_BY
    replace_file(path, f"{made_by}\n{assembly.to_json()}".encode(), path.with_name(f"{path.name}.{os.getpid()}"))


def read_state(path: Path | None, profile: str) -> CompiledAssembly | None:
    """Return the plan in ``path``; None without one, or if it is of another version or profile or lacks secrets."""
    if path is None or not path.exists():
        return None
    made_by, _, text = path.read_text("utf-8").partition("\n")
    if made_by != _MADE_BY:
        return None
    assembly = CompiledAssembly.from_json(text)
    return assembly if assembly.profile == profile else None


class RivetProjectScaffoldParams(BaseModel):
    """The parameters of ``dg scaffold defs rivet_dagster.RivetProjectComponent``."""

    project_path: str = Field(description="The directory of the project, in which its rivet.yaml lies.")


class RivetProjectScaffolder(Scaffolder[RivetProjectScaffoldParams]):
    """The scaffolder that writes a defs.yaml for a project."""

    @classmethod
    def get_scaffold_params(cls) -> type[RivetProjectScaffoldParams]:
        """Return the class of the parameters."""
        return RivetProjectScaffoldParams

    def scaffold(self, request: ScaffoldRequest[RivetProjectScaffoldParams]) -> None:
        """Write defs.yaml, with the project's path relative to the Dagster project. Raises RVT-101."""
        path = Path(request.params.project_path).resolve()
        if not (path / "rivet.yaml").is_file():
            raise RivetError("RVT-101", f"there is no rivet.yaml in '{path}'")
        root = (request.project_root or Path.cwd()).resolve()
        relative = Path(os.path.relpath(path, root)).as_posix()
        scaffold_component(request, {"project": "{{ context.project_root }}/" + relative})


@dataclass(frozen=True)
class ProjectDirectory:
    """The directory of a project, and its path relative to the Dagster project, which names its state."""

    path: Path
    name: str


def _project_directory(context: dg.ResolutionContext, model: str) -> ProjectDirectory:
    path = context.resolve_source_relative_path(context.resolve_value(model, as_type=str)).resolve()
    root = dg.ComponentLoadContext.from_resolution_context(context).project_root
    return ProjectDirectory(path, Path(os.path.relpath(path, root)).as_posix())


@scaffold_with(RivetProjectScaffolder)
@dataclass
class RivetProjectComponent(dg.StateBackedComponent, dg.Resolvable):
    """The assets, checks, resources, jobs, schedules and sensors of a project.

    The compiled plan is the component's state: ``dagster dev`` and ``dg`` compile it when a code location is loaded,
    and ``dg utils refresh-defs-state`` when an image is built; processes of runs and steps read it. If no plan was
    written yet, or only one of another version of rivet_dagster or for another profile, the project is compiled again,
    which is quick and reads no data. That is also done if the profile contains a secret, since no state holds secrets.
    An example of a ``defs.yaml``::

        type: rivet_dagster.RivetProjectComponent
        attributes:
          project: "{{ context.project_root }}/sales"
          select: "group:marts"
          translation:
            tags: {owner: "{{ joint.owners | first }}"}

    A subclass may override ``get_asset_spec``, ``get_errors_asset_spec``, ``get_asset_check_spec`` and ``execute``.
    """

    project: Annotated[
        ProjectDirectory | str | Path,
        dg.Resolver(
            _project_directory,
            model_field_type=str,
            description="The directory of the project, from the folder of this file or absolute.",
            examples=["{{ context.project_root }}/sales", "../../../sales"],
        ),
    ]
    profile: Annotated[
        str | None,
        dg.Resolver.default(
            description="The profile; else that of RIVET_PROFILE, else `default`.", examples=["production"]
        ),
    ] = None
    select: Annotated[
        str | None,
        dg.Resolver.default(
            description="Which joints are assets, in Dagster's selection syntax; all of them by default.",
            examples=["group:marts", "tag:fresh and kind:sql"],
        ),
    ] = None
    exclude: Annotated[
        str | None,
        dg.Resolver.default(
            description="Which of them are not, in Dagster's selection syntax.", examples=["tag:draft"]
        ),
    ] = None
    translation: Annotated[
        TranslationFn[CompiledJoint] | None,
        TranslationFnResolver[CompiledJoint](lambda joint: {"joint": joint}),
    ] = None
    op: Annotated[
        OpSpec | None,
        dg.Resolver.default(
            description="Settings of the steps: tags, pool, description, backfill_policy. They are named after joints.",
            examples=[{"tags": {"team": "sales"}, "pool": "warehouse"}],
        ),
    ] = None
    executor: Annotated[
        bool,
        dg.Resolver.default(
            description="Whether the code location gets the executor that the engines require. It can have only one."
        ),
    ] = True
    automation: Annotated[
        bool,
        dg.Resolver.default(
            description="Whether jobs, schedules and sensors are made. Only one component of a project should do so."
        ),
    ] = True
    introspect: Annotated[
        bool,
        dg.Resolver.default(
            description="Whether catalogs are asked for the columns of sources when the project is compiled."
        ),
    ] = False
    defs_state: ResolvedDefsStateConfig = field(default_factory=DefsStateConfigArgs.local_filesystem)

    def __post_init__(self) -> None:
        if self.op is not None and self.op.name is not None:
            raise RivetError("RVT-103", f"`op` has no `name` ('{self.op.name}'): each step is named after its joint")

    @property
    def directory(self) -> ProjectDirectory:
        """The directory of the project."""
        if isinstance(self.project, ProjectDirectory):
            return self.project
        path = Path(self.project).resolve()
        return ProjectDirectory(path, path.name)

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where Dagster stores the plan."""
        name = self.directory.name
        if self.profile is not None:
            name += f":{self.profile}"
        if self.select is not None or self.exclude is not None:
            # Dagster warns of two components under one key; a selection may be longer than a file's name.
            name += f"#{sha256(repr((self.select, self.exclude)).encode()).hexdigest()[:8]}"
        return DefsStateConfig.from_args(self.defs_state, default_key=f"RivetProjectComponent[{name}]")

    def write_state_to_path(self, state_path: Path) -> None:
        """Compile the project and write its plan. Raises one RivetError with all errors of the project."""
        write_state(state_path, self._compiled().assembly)

    def build_defs_from_state(self, context: dg.ComponentLoadContext, state_path: Path | None) -> dg.Definitions:
        """Return the definitions of the plan in ``state_path``, else of a plan that is compiled now.

        Raises one RivetError with all errors of the project.
        """
        with without_collector():
            assembly = read_state(state_path, chosen_profile(self.profile, os.environ))
            project = self._compiled() if assembly is None else self._project(assembly)
            if self.select is not None or self.exclude is not None:
                project = project.part(self.select, self.exclude).apart()
            return build_definitions(
                project,
                body=self.execute,
                settings=self._settings,
                executor=GENERATED if self.executor else None,
                automation=self.automation,
            )

    def get_asset_spec(self, joint: CompiledJoint, project: TranslationContext) -> dg.AssetSpec:
        """Return the spec of a joint, before ``translation`` is applied to it; ``project`` is a read-only view."""
        return self._translator.get_asset_spec(joint, project)

    def get_errors_asset_spec(
        self, joint: CompiledJoint, spec: dg.AssetSpec, project: TranslationContext
    ) -> dg.AssetSpec:
        """Return the spec of the error table of a joint, whose own spec is ``spec``."""
        return self._translator.get_errors_asset_spec(joint, spec, project)

    def get_asset_check_spec(
        self, check: CompiledCheck, joint: CompiledJoint, project: TranslationContext
    ) -> dg.AssetCheckSpec:
        """Return the spec of a check of a joint."""
        return self._translator.get_asset_check_spec(check, joint, project)

    def execute(self, context: dg.AssetExecutionContext, group: RivetGroupRun) -> Iterable[Any]:
        """Run a group and yield its step's events. An override may take resources, as with ``@rivet_assets``."""
        yield from group.run(context)

    @cached_property
    def _translator(self) -> DagsterRivetTranslator:
        return DagsterRivetTranslator()

    @property
    def _settings(self) -> StepSettings:
        if self.op is None:
            return StepSettings()
        return StepSettings(
            op_tags=self.op.tags or {},
            pool=self.op.pool,
            description=self.op.description,
            backfill_policy=self.op.backfill_policy,
        )

    def _compiled(self) -> RivetProject:
        plan = compile_directory(self.directory.path, self.profile, introspect=self.introspect, recall=True)
        project = self._project(plan)
        refuse_problems(project)
        return project

    def _project(self, plan: CompiledAssembly) -> RivetProject:
        environment = environment_name(None, os.environ)
        return RivetProject.of(plan, self.directory.path, _ComponentTranslator(self), environment)


class _ComponentTranslator(DagsterRivetTranslator):
    """The translator that calls the component's methods, and applies the ``translation`` of its YAML."""

    def __init__(self, component: RivetProjectComponent) -> None:
        self._component = component

    def get_asset_spec(self, joint: CompiledJoint, project: TranslationContext) -> dg.AssetSpec:
        spec = self._component.get_asset_spec(joint, project)
        translation = self._component.translation
        return spec if translation is None else translation(spec, joint)

    def get_errors_asset_spec(
        self, joint: CompiledJoint, spec: dg.AssetSpec, project: TranslationContext
    ) -> dg.AssetSpec:
        return self._component.get_errors_asset_spec(joint, spec, project)

    def get_asset_check_spec(
        self, check: CompiledCheck, joint: CompiledJoint, project: TranslationContext
    ) -> dg.AssetCheckSpec:
        return self._component.get_asset_check_spec(check, joint, project)
