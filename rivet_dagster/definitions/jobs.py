"""Jobs: those over all joints, the upkeep of tables and the sweep of catalogs; and targets of jobs and schedules.

There is one job over all joints without partitions, and one for each partitions definition. A target is joints with one
partitions definition or none, and checks of sources.
"""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import ENGINE_TAG, engine_keys, engine_pool, open_runtime
from rivet_dagster.definitions.runs.failure import rivet_failures
from rivet_dagster.definitions.runs.identity import environment_tags
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.clean_up import UpkeptTable, errors_of, own_tables, sweep_patiently, upkeep
from rivet_dagster.execution.group_run import reads
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.partitions import Partitions


@dataclass(frozen=True)
class JobTarget:
    """The joints that a run materializes.

    ``joints`` are in topological order; the checks of the sources ``gated`` are evaluated before them. ``partitions``
    are those of all joints that have partitions, None if none has.
    """

    joints: tuple[str, ...]
    gated: tuple[str, ...]
    partitions: Partitions | None

    def selection(self, project: RivetProject) -> dg.AssetSelection:
        """Return the target as an asset selection, with the error tables that are published with the joints."""
        judged = dg.AssetSelection.checks_for_assets(*project.keys(self.gated))
        errors = [key for name in self.joints if (key := project.errors_key(name)) is not None]
        return dg.AssetSelection.assets(*project.keys(self.joints), *errors) | judged


def find_target(project: RivetProject, text: str) -> JobTarget:
    """Return the target of a selection in Dagster's syntax, without its sources. Raises RVT-115, RVT-116."""
    return target_of(project, project.select_made(text))


def target_of(project: RivetProject, joints: Iterable[str]) -> JobTarget:
    """Return the target that materializes ``joints``, none of which is a source. Raises RVT-116."""
    wanted = set(joints)
    made = tuple(name for name in project.joints.values() if name in wanted)
    partitions = {p.keys: p for name in made if (p := project.assembly.joint(name).partitions) is not None}
    if len(partitions) > 1:
        known = ", ".join(map(str, partitions.values()))
        raise RivetError("RVT-116", f"the joints have several partitions definitions: {known}")
    return JobTarget(made, _gated_sources(project, made), next(iter(partitions.values()), None))


def _gated_sources(project: RivetProject, joints: Iterable[str]) -> tuple[str, ...]:
    by_group: dict[str, list[str]] = {}
    for name in joints:
        by_group.setdefault(project.assembly.joint(name).group, []).append(name)
    groups = {project.assembly.group(group): names for group, names in by_group.items()}
    read = {name for group, names in groups.items() for name in reads(project.assembly, group, names)}
    joints_read = (project.assembly.joint(name) for name in sorted(read))
    return tuple(
        joint.name for joint in joints_read if joint.type == SOURCE and joint.checks and joint.name in project.selected
    )


def jobs_over_everything(project: RivetProject) -> "list[dg.UnresolvedAssetJobDefinition]":
    """Return the job ``all``, and ``all_daily`` and the like for joints with partitions.

    A run has one partitions definition, so each has a job of its own: several of one type are numbered in the order of
    start, end, time zone and values, as in ``all_daily_2``. Each job includes the checks of the gated sources that its
    joints read.
    """
    chosen = [joint for joint in project.assembly.joints if joint.name in project.selected]
    targets = {name: target_of(project, joints) for name, joints in _parts(chosen).items()}
    read = {name for target in targets.values() for name in target.gated}
    unread = [joint.name for joint in chosen if joint.type == SOURCE and joint.checks and joint.name not in read]
    jobs: list[dg.UnresolvedAssetJobDefinition] = []
    for name, target in targets.items():
        selection = target.selection(project)
        if not jobs:
            selection |= dg.AssetSelection.checks_for_assets(*project.keys(unread))
        description = "Every joint of the project"
        if target.partitions is not None:
            description = f"Every joint whose partitions are {target.partitions}"
        elif len(targets) > 1:
            description += " that has no partitions"
        jobs.append(dg.define_asset_job(name, selection, tags=environment_tags(project), description=description))
    return jobs


def _parts(chosen: list[CompiledJoint]) -> Mapping[str, list[str]]:
    """Return the names of the joints that can be materialized, by the name of their job."""
    by_keys: dict[object, list[CompiledJoint]] = {}
    made = [joint for joint in chosen if joint.type != SOURCE]
    for joint in sorted(made, key=lambda joint: str(joint.partitions.keys) if joint.partitions else ""):
        by_keys.setdefault(joint.partitions.keys if joint.partitions else None, []).append(joint)
    by_job: dict[str, list[CompiledJoint]] = {}
    for joints in by_keys.values():
        by_job[_name(joints[0].partitions, by_job)] = joints
    return {name: [joint.name for joint in joints] for name, joints in by_job.items()} or {"all": []}


def _name(partitions: Partitions | None, taken: Mapping[str, object]) -> str:
    if partitions is None:
        return "all"
    name = f"all_{partitions.type}"
    number = sum(other == name or other.startswith(f"{name}_") for other in taken)
    return f"{name}_{number + 1}" if number else name


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
            for outcome in upkeep(runtime, tables):
                done.append(outcome)
                context.log.info(outcome.text())
                yield from _observation(project, outcome)
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


def _observation(project: RivetProject, outcome: UpkeptTable) -> Iterator[dg.AssetObservation]:
    """Yield what was done to a table as an observation of its asset, if that is here."""
    if outcome.report is None or outcome.of.joint not in project.selected:
        return
    key = project.errors_key(outcome.of.joint) if outcome.of.is_errors else project.key(outcome.of.joint)
    if key is not None:
        yield dg.AssetObservation(key, metadata={UPKEEP: dg.MetadataValue.json(asdict(outcome.report))})


def _table(tables: Sequence[UpkeptTable]) -> dg.TableMetadataValue:
    reports = [asdict(outcome.report) for outcome in tables if outcome.report is not None]
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
