"""The last step of a run with `publish: run`: publishing all tables that the run has staged, or none of them.

In storage without commits over several tables they are published one after the other. All of them were judged before,
and each is compared with its base once more before the first is published. A last step that dies in between is finished
by its next attempt, which finds the published ones by the identity of their run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.staging import StagedTransaction, StagesForRuns
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.clean_up.archiving import archive_read_files
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.staged_tables import StagedTable, swept
from rivet_dagster.model.storage import Published

GONE, CONFLICT = "RVT-418", "RVT-405"

RESUMED_WITHIN = 86_400.0
"""Seconds within which a last step that has died between two tables can be tried again."""


@dataclass(frozen=True)
class RunPublication:
    """The versions that readers see since the last step of a run, by joint.

    ``not_archived`` are errors for files of landing zones that could not be archived.
    """

    published: dict[str, Published]
    not_archived: tuple[RivetError, ...] = ()


def publish_run(
    runtime: Runtime, staged: Sequence[StagedTable], tell: Callable[[str], None] = lambda _: None
) -> RunPublication:
    """Publish the tables that a run has staged, in their order; those that it has published already stay.

    If another run has published one of them meanwhile, none is published, all are withheld, and RVT-405 names them. If
    one has been swept, none is published: RVT-418. ``tell`` is called with a line for each table that is published.
    """
    published: dict[str, Published] = {}
    waiting: list[tuple[StagedTable, StagedTransaction]] = []
    errors: list[RivetError] = []
    for table in staged:
        catalog = _catalog(runtime, table)
        done = catalog.published_by(table.table, table.identity)
        if done is not None:
            published[table.joint] = done
            continue
        try:
            version = catalog.staged_by(table.table, table.identity)
            if version is None:
                raise swept(table)
            target = runtime.assembly.target(table.joint)
            options = target.options if target is not None else {}
            transaction = catalog.take_up_staged(table.table, version.version, options)
            waiting.append((table, transaction))
            transaction.check_base()
        except RivetError as error:
            if error.code not in (GONE, CONFLICT):
                raise
            errors.append(error)
    if errors:
        raise _refused(runtime, errors, waiting, published)
    runtime.check_interrupt()
    if len(waiting) + len(published) > 1:
        _outlive_this_process(runtime, waiting)
    for number, (table, transaction) in enumerate(waiting):
        try:
            published[table.joint] = transaction.commit(table.identity)
        except RivetError as error:
            if error.code != CONFLICT:
                raise
            done = _catalog(runtime, table).published_by(table.table, table.identity)
            if done is None:  # else another attempt of this step was faster
                raise _refused(runtime, [error], waiting[number:], published) from error
            published[table.joint] = done
        tell(f"published {table.catalog}.{table.table}: readers see {published[table.joint].version}")
    groups = [runtime.assembly.group(table.joint) for table in staged]
    archived = (archive_read_files(runtime, group) for group in groups)
    return RunPublication(published, tuple(error for error in archived if error is not None))


def _outlive_this_process(runtime: Runtime, waiting: Sequence[tuple[StagedTable, StagedTransaction]]) -> None:
    """Have no sweep remove the tables for a day: if this process dies between two of them, its next attempt goes on."""
    for table, transaction in waiting:
        _catalog(runtime, table).keep_alive(table.table, transaction.version, RESUMED_WITHIN)


def _catalog(runtime: Runtime, table: StagedTable) -> StagesForRuns:
    return capable(runtime.catalog_within_reach(table.catalog), StagesForRuns)


def _refused(
    runtime: Runtime,
    errors: Sequence[RivetError],
    waiting: Sequence[tuple[StagedTable, StagedTransaction]],
    published: dict[str, Published],
) -> RivetError:
    """Return the error of a run that cannot be published; after a conflict its tables are withheld."""
    reasons = "; ".join(error.diagnostics[0].message for error in errors)
    before = f"; the run had published {', '.join(published)} already" if published else ""
    if any(error.code == GONE for error in errors):
        lost = [error.diagnostics[0].joint for error in errors if error.code == GONE]
        message = f"nothing of the run is published: {reasons}{before}"
        return RivetError(GONE, message, joint=lost[0], remediation=f"Run it again, with {', '.join(map(str, lost))}.")
    for table, transaction in waiting:
        _catalog(runtime, table).withhold_staged(table.table, transaction.version)
    names = ", ".join(f"{table.joint} ({transaction.version})" for table, transaction in waiting)
    message = f"nothing more of the run is published: {reasons}{before}; withheld are {names}"
    first, transaction = waiting[0]
    command = f"rivet-dagster versions {{}} {first.joint} {transaction.version}"
    remedy = (
        "Run it again, upon what is published now. Or publish each withheld version yourself, as with "
        f"`{command.format('publish')}`, or remove it, as with `{command.format('drop')}`; it may lack what others "
        "published since it was begun."
    )
    return RivetError(CONFLICT, message, remediation=remedy)
