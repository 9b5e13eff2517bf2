"""The IO manager: what a joint computed reaches any Dagster asset, in the form that its annotation asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.failure import rivet_failures
from rivet_dagster.definitions.resources import engine_key, open_runtime
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading import reference
from rivet_dagster.execution.refs import MaterializedRef
from rivet_dagster.execution.runtime import Runtime


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
        """The joint's rows as the input's annotation asks; a MaterializedRef where it has none."""
        joint = self._joints[context.asset_key]
        with rivet_failures():
            return _as(context.dagster_type.typing_type, reference(self._runtime, joint))


def io_manager_definition(
    assembly: CompiledAssembly, root: Path, joints: Mapping[dg.AssetKey, str]
) -> dg.IOManagerDefinition:
    """The project's IO manager; its engines are the project's resources."""
    keys = {engine_key(spec.name) for spec in assembly.engines}

    @dg.io_manager(required_resource_keys=keys, description="Joints of a rivet_dagster project")
    def rivet_io_manager(context: dg.InitResourceContext) -> RivetIOManager:
        return RivetIOManager(open_runtime(assembly, root, context.resources), joints)

    return rivet_io_manager


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
