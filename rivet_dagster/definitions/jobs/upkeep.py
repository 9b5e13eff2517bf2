"""The job that does the upkeep of the tables of a project.

The job that sweeps the catalogs of a project.
"""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import ENGINE_TAG, engine_keys, engine_pool, open_runtime
from rivet_dagster.definitions.runs.environment import environment_tags
from rivet_dagster.definitions.runs.failure import rivet_failures
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.clean_up import UpkeptTable, errors_of, own_tables, sweep_patiently, upkeep
from rivet_dagster.execution.runtime import Runtime

JOB, STEP = "upkeep", "upkeep_of_tables"
UPKEEP = "rivet/upkeep"
_CATALOGS = "catalogs"
_COLUMNS = {
    "table": "string",
    "snapshots_expired": "int",
    "files_deleted": "int",
    "orphans_deleted": "int",
    "files_rewritten": "int",
    "files_added": "int",
    "bytes_before": "int",
    "bytes_after": "int",
    "manifests_rewritten": "int",
    "seconds": "float",
}


@lru_cache(maxsize=8)
def upkeep_job(project: RivetProject) -> dg.JobDefinition:
    """Return the job, the same object with each call for a project: Dagster refuses two jobs of one name."""
    engines = sorted({table.engine for table in own_tables(project.assembly)})

    @dg.op(
        name=STEP,
        description="Expires snapshots, removes orphan files, rewrites small files and manifests of the tables.",
        config_schema={_CATALOGS: dg.Field([str], is_required=False, description="Only these catalogs")},
        required_resource_keys=engine_keys(project.assembly),
        # A step has one pool, and an engine's limit counts its steps.
        tags={ENGINE_TAG: engines[0]} if len(engines) == 1 else {},
        pool=engine_pool(engines[0]) if len(engines) == 1 else None,
    )
    def upkeep_of_tables(context: dg.OpExecutionContext) -> Iterator[dg.AssetObservation | dg.Output[None]]:
        runtime = open_runtime(project, context.resources, context.run_id)
        tables = own_tables(project.assembly, context.op_config.get(_CATALOGS, ()))
        done: list[UpkeptTable] = []
        with rivet_failures():
            for kept in upkeep(runtime, tables):
                done.append(kept)
                context.log.info(kept.text())
                yield from _observation(project, kept)
            errors = errors_of(done)
            if errors:
                raise RivetError.of(errors)
        yield dg.Output(None, metadata={UPKEEP: _table(done)})

    @dg.job(name=JOB, tags=environment_tags(project), description="Keeps the files of the project's tables in order.")
    def upkeep_() -> None:
        upkeep_of_tables()

    return upkeep_


def upkeep_config(catalogs: Sequence[str]) -> dict[str, Any]:
    """Return the run config of the job for these catalogs, without any for all."""
    return {"ops": {STEP: {"config": {_CATALOGS: list(catalogs)}}}} if catalogs else {}


def _observation(project: RivetProject, kept: UpkeptTable) -> Iterator[dg.AssetObservation]:
    """Yield what was done to a table as an observation of its asset, if that is here."""
    if kept.report is None or kept.of.joint not in project.selected:
        return
    key = project.errors_key(kept.of.joint) if kept.of.is_errors else project.key(kept.of.joint)
    if key is not None:
        yield dg.AssetObservation(key, metadata={UPKEEP: dg.MetadataValue.json(asdict(kept.report))})


def _table(tables: Sequence[UpkeptTable]) -> dg.TableMetadataValue:
    reports = [asdict(kept.report) for kept in tables if kept.report is not None]
    columns = [dg.TableColumn(name, kind) for name, kind in _COLUMNS.items()]
    return dg.MetadataValue.table(
        [dg.TableRecord({name: report[name] for name in _COLUMNS}) for report in reports], dg.TableSchema(columns)
    )


SWEEP_JOB = "sweep"


@lru_cache(maxsize=8)
def sweep_job(project: RivetProject) -> dg.JobDefinition:
    """Return the job, the same object with each call for a project: Dagster refuses two jobs of one name."""

    @dg.op(description="Removes the leftovers of dead runs from the catalogs; live runs are not affected.")
    def sweep_catalogs(context: dg.OpExecutionContext) -> None:
        runtime = Runtime(project.assembly, project.root)
        with rivet_failures():
            swept = sweep_patiently(runtime.catalog(spec.name) for spec in project.assembly.catalogs)
            for name in swept.names:
                context.log.info(f"removed {name}")
            context.add_output_metadata({"rivet/swept": len(swept.names)})
            swept.raise_errors()

    @dg.job(
        name=SWEEP_JOB,
        tags=environment_tags(project),
        description="Removes the leftovers of dead runs, and abandoned environments, from the catalogs.",
    )
    def sweep() -> None:
        sweep_catalogs()

    return sweep
