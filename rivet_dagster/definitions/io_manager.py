"""The IO manager: what a joint computed reaches any Dagster asset, in the form that its annotation asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.definitions.failure import rivet_failures
from rivet_dagster.definitions.partitions import partitions_definition, window
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources import ENGINE_TAG, engine_key, open_runtime
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading import reference
from rivet_dagster.execution.refs import MaterializedRef
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.partitions import Window


class RivetIOManager(dg.IOManager):
    """Hands out joints as MaterializedRef, pyarrow Table, pandas or polars frame, or Spark DataFrame.

    What a group computed is published by the group's own step; this only remembers nothing and finds it again, in any
    process, from the plan and the storage.
    """

    def __init__(self, runtime: Runtime, joints: Mapping[dg.AssetKey, str]) -> None:
        self._runtime = runtime
        self._joints = joints

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Take the handle on what a group published; refuse what other assets would store."""
        if context.asset_key not in self._joints:
            raise RivetError(
                "RVT-298",
                f"the asset {context.asset_key.to_user_string()} is no joint; only joints are kept by this IO manager",
                remediation="Give the asset another io_manager_key; it may still read joints.",
            )
        assert obj is None or isinstance(obj, MaterializedRef)

    def load_input(self, context: dg.InputContext) -> Any:
        """The joint's rows as the input's annotation asks; a MaterializedRef where it has none.

        An asset that takes some of a joint's partitions gets their rows alone.
        """
        joint = self._joints[context.asset_key]
        with rivet_failures():
            ref = reference(self._runtime, joint, _window(context, self._runtime.assembly.joint(joint)))
            return _as(context.dagster_type.typing_type, ref)


def io_manager_definition(project: RivetProject) -> dg.IOManagerDefinition:
    """The project's IO manager; its engines are the project's resources."""
    keys = {engine_key(spec.name) for spec in project.assembly.engines}

    @dg.io_manager(required_resource_keys=keys, description="Joints of a rivet_dagster project")
    def rivet_io_manager(context: dg.InitResourceContext) -> RivetIOManager:
        return RivetIOManager(open_runtime(project, context.resources), project.joints)

    return rivet_io_manager


def _window(context: dg.InputContext, joint: CompiledJoint) -> Window | None:
    """The partitions that Dagster maps to those of the run; None where these are all.

    A step of our own is given all of them, too: it knows what of them its query, and what its checks, read.
    """
    if joint.partitions is None or not context.has_asset_partitions or ENGINE_TAG in context.op_def.tags:
        return None
    keys = context.asset_partition_keys
    if len(keys) == partitions_definition(joint.partitions).get_num_partitions():
        return None
    try:
        return window(joint.partitions, keys)
    except ValueError as error:
        message = f"'{joint.name}' can only be given by partitions that follow one another: {error}"
        raise RivetError("RVT-509", message, joint=joint.name, remediation="Use another partition mapping.") from error


def _as(kind: Any, ref: MaterializedRef) -> Any:
    """``ref`` in the annotated form; types are told by name, since importing them all would be slow."""
    package, name = getattr(kind, "__module__", "").partition(".")[0], getattr(kind, "__name__", "")
    if kind is MaterializedRef or kind is Any or (package in ("typing", "builtins") and name in ("Any", "object")):
        return ref
    if (package, name) == ("pyarrow", "Table"):
        return ref.to_arrow()
    if (package, name) == ("pandas", "DataFrame"):
        return ref.to_arrow().to_pandas()
    if (package, name) == ("polars", "DataFrame"):
        import polars

        return polars.from_arrow(ref.to_arrow())
    if (package, name) == ("pyspark", "DataFrame"):
        return ref.to_spark()
    raise RivetError(
        "RVT-509",
        f"the joint '{ref.joint}' cannot be given as {package}.{name}",
        joint=ref.joint,
    )
