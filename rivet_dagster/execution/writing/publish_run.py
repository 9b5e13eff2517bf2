"""The last step of a run with `publish: run`: publishing all tables that the run has staged, or none of them.

A catalog that can do that publishes its tables in one commit; others publish one after the other. All of them were
judged before, and each is compared with its base once more before the first commit. A last step that dies between two
commits is finished by its next attempt, which finds the published ones by the identity of their run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.staging import StagedTransaction, StagesForRuns, publishes_together
from rivet_dagster.errors import Conflict, RivetError, StagedRowsGone
from rivet_dagster.execution.clean_up import archive_read_files
from rivet_dagster.execution.results import StagedResult, swept
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.storage import Published

Waiting = tuple[StagedResult, StagedTransaction]
"""A table that a run has staged, and the transaction that publishes it."""

RESUMED_WITHIN = 86_400.0
"""Seconds within which a last step that has died between two commits can be tried again."""


@dataclass(frozen=True)
class RunPublication:
    """The versions that readers see since the last step of a run, by joint.

    ``one_commit`` says that readers see all of them since the same moment. ``not_archived`` are errors for files of
    landing zones that could not be archived.
    """

    published: dict[str, Published]
    one_commit: bool = False
    not_archived: tuple[RivetError, ...] = ()


def publish_run(
    runtime: Runtime, staged: Sequence[StagedResult], tell: Callable[[str], None] = lambda _: None
) -> RunPublication:
    """Publish the tables that a run has staged, in their order, or those of a catalog in one commit if it can do that.

    Those that the run has published already stay. If another run has published one of them meanwhile, none is
    published, all are withheld, and RVT-405 names them. If one has been swept, none is published: RVT-418. ``tell`` is
    called with a line for each table that is published.
    """
    catalogs = {table.catalog: _catalog(runtime, table) for table in staged}
    with ExitStack() as stack:
        for catalog in catalogs.values():
            stack.enter_context(catalog.list_once())
        return _publish_all(runtime, staged, tell)


def _publish_all(runtime: Runtime, staged: Sequence[StagedResult], tell: Callable[[str], None]) -> RunPublication:
    published: dict[str, Published] = {}
    waiting: list[Waiting] = []
    errors: list[RivetError] = []
    for table in staged:
        catalog = _catalog(runtime, table)
        done = catalog.published_by(table.table, table.identity)
        if done is not None:
            published[table.joint] = done
            _clean_up(catalog, table)
            continue
        try:
            target = runtime.assembly.target(table.joint)
            options = target.options if target is not None else {}
            transaction = catalog.take_up_staged(table.table, table.version, options)
            waiting.append((table, transaction))
            transaction.check_base()
        except StagedRowsGone:
            errors.append(swept(table))
        except Conflict as error:
            errors.append(error)
    if errors:
        raise _refused(runtime, errors, waiting, published)
    runtime.check_interrupt()
    commits = _commits(runtime, waiting)
    one_commit = not published if len(commits) == 1 else not commits and _would_be_one(runtime, staged)
    if len(commits) + bool(published) > 1:
        _outlive_this_process(runtime, waiting)
    for number, commit in enumerate(commits):
        versions = _published(runtime, commit)
        if isinstance(versions, RivetError):
            left = [each for later in commits[number:] for each in later]
            raise _refused(runtime, [versions], left, published) from versions
        for (table, _), version in zip(commit, versions, strict=True):
            published[table.joint] = version
            tell(f"published {table.catalog}.{table.table}: readers see {version.version}")
    groups = [runtime.assembly.group(table.joint) for table in staged]
    archived = (archive_read_files(runtime, group) for group in groups)
    return RunPublication(published, one_commit, tuple(error for error in archived if error is not None))


def _commits(runtime: Runtime, waiting: Sequence[Waiting]) -> list[list[Waiting]]:
    """Return the tables of each commit, in the order of the first one of each."""
    commits: dict[tuple[str, ...], list[Waiting]] = {}
    for table, transaction in waiting:
        together = publishes_together(_catalog(runtime, table))
        key = (table.catalog,) if together else (table.catalog, table.table)
        commits.setdefault(key, []).append((table, transaction))
    return list(commits.values())


def _would_be_one(runtime: Runtime, staged: Sequence[StagedResult]) -> bool:
    """Return whether tables that an earlier attempt has published were published in one commit."""
    first = staged[0] if staged else None
    return (
        first is not None
        and all(table.catalog == first.catalog for table in staged)
        and (len(staged) == 1 or publishes_together(_catalog(runtime, first)))
    )


def _published(runtime: Runtime, commit: Sequence[Waiting]) -> Sequence[Published] | RivetError:
    """Publish the tables of a commit, and return their versions; or the conflict, after which none is published."""
    catalog = _catalog(runtime, commit[0][0])
    try:
        if publishes_together(catalog):
            return catalog.publish_together([(transaction, table.identity) for table, transaction in commit])
        return [transaction.commit(table.identity) for table, transaction in commit]
    except Conflict as error:
        versions = (catalog.published_by(table.table, table.identity) for table, _ in commit)
        done = [version for version in versions if version is not None]
        return done if len(done) == len(commit) else error  # another attempt of this step was faster


def _clean_up(catalog: StagesForRuns, table: StagedResult) -> None:
    """Remove what an attempt that died after it had published a table has left of it."""
    left = catalog.staged_by(table.table, table.identity)  # an environment that is over takes nothing up
    if left is not None:
        catalog.take_up_staged(table.table, left.version).abort()


def _outlive_this_process(runtime: Runtime, waiting: Sequence[Waiting]) -> None:
    """Have no sweep remove the tables for a day: if this process dies between two commits, its next attempt goes on."""
    for table, transaction in waiting:
        _catalog(runtime, table).keep_alive(table.table, transaction.version, RESUMED_WITHIN)


def _catalog(runtime: Runtime, table: StagedResult) -> StagesForRuns:
    return capable(runtime.catalog_within_reach(table.catalog), StagesForRuns)


def _refused(
    runtime: Runtime,
    errors: Sequence[RivetError],
    waiting: Sequence[Waiting],
    published: dict[str, Published],
) -> RivetError:
    """Return the error of a run that cannot be published; after a conflict its tables are withheld."""
    reasons = "; ".join(diagnostic.message for error in errors for diagnostic in error.diagnostics)
    before = f"; the run had published {', '.join(published)} already" if published else ""
    lost = [error.diagnostics[0].joint for error in errors if isinstance(error, StagedRowsGone)]
    if lost:
        message = f"nothing of the run is published: {reasons}{before}"
        remedy = f"Run it again, with {', '.join(map(str, lost))}."
        return RivetError("RVT-418", message, joint=lost[0], remediation=remedy)
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
    return RivetError("RVT-405", message, remediation=remedy)
