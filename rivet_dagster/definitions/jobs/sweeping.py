"""The job that sweeps the catalogs of a project."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

from functools import lru_cache

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.environment import environment_tags
from rivet_dagster.definitions.runs.failure import rivet_failures
from rivet_dagster.execution.clean_up import sweep_patiently
from rivet_dagster.execution.runtime import Runtime

JOB = "sweep"


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
        name=JOB,
        tags=environment_tags(project),
        description="Removes the leftovers of dead runs, and abandoned environments, from the catalogs.",
    )
    def sweep() -> None:
        sweep_catalogs()

    return sweep
