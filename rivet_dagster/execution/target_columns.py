"""Whether the tables that are published take the columns of what the plan writes to them, as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rivet_dagster.catalogs.capabilities.targets import ChecksBatches
from rivet_dagster.catalogs.registry import catalog_class
from rivet_dagster.compiler.joints import CompiledJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import BatchRefused, Diagnostic, NotWritable, RivetError
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.target import Target

_UNKNOWN = "RVT-318"
_HOLDS = "Have its catalog answer; the plan holds without it."


def check_targets(assembly: CompiledAssembly, runtime: Runtime) -> CompiledAssembly:
    """Return the plan with an error for each table that refuses its batch by its columns.

    A joint whose columns are not known for certain is left out. A catalog that does not answer is a warning (RVT-318),
    and is not asked for its other tables.
    """
    types = {spec.name: spec.type for spec in assembly.catalogs}
    errors: list[Diagnostic] = []
    warnings: dict[str, Diagnostic] = {}
    for joint, target in _published(assembly):
        if target.catalog in warnings or not issubclass(catalog_class(types[target.catalog]), ChecksBatches):
            continue
        try:
            _check(runtime, joint, target)
        except RivetError as error:
            diagnostic = replace(error.diagnostics[0], joint=joint.name, file=joint.file, line=joint.line)
            if isinstance(error, BatchRefused | NotWritable):
                errors.append(diagnostic)
            else:
                text = f"the columns of its table are unknown: {diagnostic.message}"
                warnings[target.catalog] = replace(diagnostic, code=_UNKNOWN, message=text, remediation=_HOLDS)
    all_warnings = (*assembly.warnings, *warnings.values())
    if errors:
        return CompiledAssembly(profile=assembly.profile, errors=tuple(errors), warnings=all_warnings)
    return replace(assembly, warnings=all_warnings)


def _published(assembly: CompiledAssembly) -> Iterator[tuple[CompiledJoint, Target]]:
    for joint in assembly.joints:
        target = assembly.target(joint.name)
        if target is not None and target.declared and joint.schema and all(field.type for field in joint.schema):
            yield joint, target


def _check(runtime: Runtime, joint: CompiledJoint, target: Target) -> None:
    catalog = runtime.catalog(target.catalog)
    assert isinstance(catalog, ChecksBatches) and joint.schema is not None
    catalog.check_batch(target.table, target.write, joint.schema, target.partitions is not None)
