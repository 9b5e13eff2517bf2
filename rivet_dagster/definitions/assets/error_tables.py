"""The events of error tables: assets that the step of the table beside them materializes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.definitions.metadata.error_metadata import error_table_metadata
from rivet_dagster.definitions.metadata.materialization_metadata import ROW_COUNT
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.environment import environment_metadata
from rivet_dagster.definitions.runs.event_log import TAG
from rivet_dagster.definitions.runs.failure import rivet_failures
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.quality.row_errors import published_errors
from rivet_dagster.execution.reading.error_tables import errors_reference
from rivet_dagster.execution.results import GroupResult, RowErrorCounts
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.storage import Published

ErrorTableEvent = dg.MaterializeResult[Any] | dg.AssetMaterialization


def shown_errors(result: GroupResult, project: RivetProject) -> RowErrorCounts | None:
    """Return the errors of a run, without values of rows where a joint of the group forbids to show them."""
    judged = (check.errors for check in result.checks if check.errors is not None)
    errors = result.errors or next(judged, None)  # a retry of a run that has published only judges
    if errors is None or project.assembly.shows_row_values(result.group):
        return errors
    return errors.without_values()


def error_table_events(
    context: dg.AssetExecutionContext,
    project: RivetProject,
    runtime: Runtime,
    group: FusedGroup,
    result: GroupResult,
    window: Window | None,
) -> Iterator[ErrorTableEvent]:
    """Yield the materialization of the error table that a run has published, whether or not it is selected."""
    key = project.errors_key(group.exit)
    if key is None or result.published is None:
        return
    metadata = _metadata(project, result.published, shown_errors(result, project))
    if key in context.selected_asset_keys:
        with rivet_failures():
            value = errors_reference(runtime, group.exit)
        version = dg.DataVersion(result.published.version)
        yield dg.MaterializeResult(asset_key=key, value=value, metadata=metadata, data_version=version)
        return
    tags = {TAG: result.published.version}
    for partition in window.keys if window is not None else (None,):
        yield dg.AssetMaterialization(key, metadata=metadata, partition=partition, tags=tags)


def published_error_table(
    context: dg.AssetExecutionContext, project: RivetProject, runtime: Runtime, group: FusedGroup
) -> Iterator[ErrorTableEvent]:
    """Yield the materialization of the error table as it is published, in a run that does not select its table.

    Nothing is written: errors are published with their table alone.
    """
    key, target = project.errors_key(group.exit), group.target
    if key is None or target is None or target.errors is None or key not in context.selected_asset_keys:
        return
    with rivet_failures():
        published = runtime.target_catalog(target.catalog).current(target.table)
        if published is None:
            raise RivetError("RVT-401", f"'{group.exit}' has never been materialized", joint=group.exit)
        with closing(runtime.engine(group.engine).session()) as session:
            errors = published_errors(runtime, published, target.errors, session)
        if not project.assembly.shows_row_values(group.name):
            errors = errors.without_values()
        value = errors_reference(runtime, group.exit)
    version = dg.DataVersion(published.version)
    yield dg.MaterializeResult(
        asset_key=key, value=value, metadata=_metadata(project, published, errors), data_version=version
    )


def _metadata(project: RivetProject, published: Published, errors: RowErrorCounts | None) -> dict[str, Any]:
    counts = {ROW_COUNT: errors.total, **error_table_metadata(errors)} if errors is not None else {}
    return {"rivet/version": published.version, **counts, **environment_metadata(project.environment)}
