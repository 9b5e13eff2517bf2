"""The resources of a project for its steps and the readers of its joints: its engines and its IO manager.

By the IO manager any Dagster asset can read joints, and joints can read external assets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.definitions.partitions import definition_text, partitions_definition, window
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import ENGINE_TAG, engine_keys, engine_resources, open_runtime
from rivet_dagster.definitions.runs.event_log import staged_by_run
from rivet_dagster.definitions.runs.failure import rivet_failures
from rivet_dagster.definitions.runs.identity import ENVIRONMENT, environment_metadata, mark_run, run_identity
from rivet_dagster.definitions.specs.materialization_metadata import PARTITION_ROW_COUNT, ROW_COUNT, column_schema
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.environments import use_environment
from rivet_dagster.execution.reading.inputs import reference
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.sources import errors_reference
from rivet_dagster.execution.results import StagedResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing.external_assets import external_reference, store_external_asset
from rivet_dagster.model.external_assets import Part, external_table
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.schema import Field
from rivet_dagster.secrets.redaction import redacted


class RivetIOManager(dg.IOManager):
    """Loads joints and external assets, as MaterializedRef, pyarrow Table, or pandas, polars or Spark DataFrame.

    The rows of a group are published by the group's own step, so its outputs are not stored again. The values of
    external assets are stored in the workspace. Both can be loaded in any process, from the plan and storage alone.
    """

    def __init__(
        self,
        runtime: Runtime,
        joints: Mapping[dg.AssetKey, str],
        run_of: Callable[[str], str],
        errors: Mapping[dg.AssetKey, str],
        enter: Callable[[], None] = lambda: None,
    ) -> None:
        self._runtime = runtime
        self._joints = joints
        self._errors = errors
        self._run_of = run_of
        self._enter = enter

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Store the value of an external asset, once even if the step is retried.

        Do nothing for a joint and for an error table.
        """
        with rivet_failures():
            _refuse_without_asset(context)
            if context.asset_key in self._joints or context.asset_key in self._errors:
                assert obj is None or isinstance(obj, MaterializedRef)
                return
            path, part = context.asset_key.path, _part(context)
            self._enter()
            identity = "/".join([self._run_of(context.step_key), context.step_key, external_table(path, part)])
            published = store_external_asset(self._runtime, path, part, obj, identity)
        columns = tuple(Field(name, kind) for name, kind in published.statistics.columns)
        context.add_output_metadata(
            {
                PARTITION_ROW_COUNT if part is not None else ROW_COUNT: published.statistics.rows,
                "dagster/uri": redacted(published.uri),
                "dagster/column_schema": column_schema(columns),
                "rivet/bytes": published.statistics.bytes,
                "rivet/version": published.version,
                **environment_metadata(self._runtime.environment),
            }
        )

    def load_input(self, context: dg.InputContext) -> Any:
        """Return the rows of a joint or another asset in the type of the input's annotation, else a MaterializedRef.

        If the input is mapped to some of the partitions, only their rows are loaded, those of several together; of an
        error table all rows are.
        """
        with rivet_failures():
            _refuse_without_asset(context)
            joint = self._joints.get(context.asset_key)
            if context.asset_key in self._errors:
                ref = errors_reference(self._runtime, self._errors[context.asset_key])
            elif joint is not None:
                ref = reference(self._runtime, joint, _window(context, self._runtime.assembly.joint(joint)))
            else:
                keys = [str(key) for key in context.asset_partition_keys] if context.has_asset_partitions else None
                allows_missing = bool((context.definition_metadata or {}).get("allow_missing_partitions"))
                ref = external_reference(self._runtime, context.asset_key.path, keys, all_of_them=not allows_missing)
            return in_form(context.dagster_type.typing_type, ref)


def io_manager_definition(project: RivetProject) -> dg.IOManagerDefinition:
    """Return the project's IO manager; its engines are the project's resources."""
    keys = engine_keys(project.assembly)

    @dg.io_manager(required_resource_keys=keys, description="Joints of a rivet_dagster project, and assets beside them")
    def rivet_io_manager(context: dg.InitResourceContext) -> RivetIOManager:
        def run_of(step: str) -> str:
            assert context.run is not None and context.instance is not None
            return run_identity(context.run, context.instance, step)

        run, instance = context.run, context.instance

        def staged(joint: str) -> StagedResult | None:
            if run is None or instance is None or joint not in project.with_run:
                return None
            return staged_by_run(run, instance, project.key(joint), project.joints)

        runtime = open_runtime(project, context.resources, run.run_id if run is not None else None, staged=staged)

        def enter() -> None:
            if run is not None and instance is not None:
                mark_run(project, run, instance)
            use_environment(runtime)

        # Not only when a value is stored: a run may do nothing but read joints.
        if run is not None and instance is not None and ENVIRONMENT not in run.tags:
            mark_run(project, run, instance)
        return RivetIOManager(runtime, project.joints, run_of, project.specs.errors_by_key, enter)

    return rivet_io_manager


def _in_our_step(context: dg.InputContext) -> bool:
    try:
        return ENGINE_TAG in context.op_def.tags
    except dg.DagsterInvariantViolationError:  # the value is loaded outside of a step
        return False


def _refuse_without_asset(context: dg.OutputContext | dg.InputContext) -> None:
    if not context.has_asset_key:
        message = f"'{context.name}' is a value between ops, which have no rows to keep, and no asset"
        raise RivetError("RVT-412", message)


def _part(context: dg.OutputContext) -> Part | None:
    """Return the partition that an output is; None without partitions. Raises RVT-517 if it is several."""
    if not context.has_asset_partitions:
        return None
    keys = context.asset_partition_keys
    if len(keys) != 1:
        name = context.asset_key.to_user_string()
        message = f"the asset {name} returned one value for {len(keys)} partitions: which rows are whose?"
        raise RivetError("RVT-517", message)
    return Part(str(keys[0]), definition_text(context.asset_partitions_def))


def _window(context: dg.InputContext, joint: CompiledJoint) -> Window | None:
    """Return the window of the partitions that Dagster maps to those of the run; None if they are all partitions.

    None also for a group's own step, since its query and its checks may read different partitions.
    """
    if joint.partitions is None or not context.has_asset_partitions or _in_our_step(context):
        return None
    keys = context.asset_partition_keys
    if len(keys) == partitions_definition(joint.partitions).get_num_partitions():
        return None
    try:
        return window(joint.partitions, keys)
    except ValueError as error:
        message = f"'{joint.name}' can only be given by partitions that follow one another: {error}"
        raise RivetError("RVT-509", message, joint=joint.name, remediation="Use another partition mapping.") from error


def in_form(kind: Any, ref: MaterializedRef) -> Any:
    """Return the rows of ``ref`` as a value of the type ``kind``; ``ref`` itself for Any. Raises RVT-509 for others.

    Types are compared by name, since importing them all would be slow.
    """
    package, name = getattr(kind, "__module__", "").partition(".")[0], getattr(kind, "__name__", "")
    if kind is MaterializedRef or kind is Any or (package in ("typing", "builtins") and name in ("Any", "object")):
        return ref
    if (package, name) == ("pyarrow", "Table"):
        return ref.to_arrow()
    if (package, name) == ("pyarrow", "RecordBatchReader"):
        return ref.to_arrow_batches()
    if (package, name) == ("pandas", "DataFrame"):
        return ref.to_arrow().to_pandas()
    if (package, name) in (("polars", "DataFrame"), ("polars", "LazyFrame")):
        import polars

        frame = polars.DataFrame(ref.to_arrow())
        return frame if name == "DataFrame" else frame.lazy()
    if (package, name) == ("pyspark", "DataFrame"):
        return ref.to_spark()
    raise RivetError("RVT-509", f"'{ref.joint}' cannot be given as {package}.{name}", joint=ref.joint)


def rivet_resources(project: RivetProject) -> dict[str, dg.ResourceDefinition]:
    """Return the resources that the assets of a project require, by resource key; nothing is started.

    >>> sorted(rivet_resources(RivetProject.load("example_repo")))
    ['rivet_engine_spark', 'rivet_io_manager']
    """
    return {**engine_resources(project), project.io_manager_key: io_manager_definition(project)}
