"""Commits: several updates of a table's metadata in one atomic step of the catalog.

A request may be carried out although its answer is lost, late, or an error: proxies give up, and send requests twice.
So nothing that a commit needs is deleted before the table itself shows that it does not have it, and a failure says
either that the commit was refused, or that nobody knows.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from rivet_dagster.catalogs.iceberg.reaching import first_line
from rivet_dagster.errors import NotFound, NotWritable, RivetError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter


_TRIES, _PAUSE = 12, 0.1
_OVERTAKEN = "older than last sequence number"
_LOOKS, _LOOKING = (0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0), 30.0
"""Seconds to wait before each look for a commit whose outcome is not known, and after which no other look begins."""


_LOG = logging.getLogger(__name__)

REMOVES_METADATA = "write.metadata.delete-after-commit.enabled"
"""The property of Iceberg by which each commit removes the metadata files that are too old for the metadata to name."""


class OutcomeUnknownError(OSError):
    """A commit was sent, and nothing tells whether it is carried out, or will be."""


@dataclass
class Outcome:
    """Knowledge of a commit: ``is_unknown`` from the moment that it is sent until its answer is understood."""

    is_unknown: bool = False


@dataclass(frozen=True)
class Changes:
    """The updates of one commit, none if it is not needed, and what must hold when it happens.

    ``writers`` are those of the snapshots that it adds.
    """

    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()
    writers: tuple[SnapshotWriter, ...] = ()


def commit(
    load: Callable[[], Table], changes: Callable[[Table], Changes], table: str, outcome: Outcome | None = None
) -> None:
    """Commit what ``changes`` returns for the table as ``load`` finds it, in one step.

    Other commits to the table that come between are no obstacle as long as ``changes`` accepts the table that they
    leave: it raises the error for one that it does not. Raises RVT-405 if others keep committing, OutcomeUnknownError
    if it cannot be told whether a snapshot was added. ``outcome`` says so, too, if the commit is interrupted.
    """
    refused: list[Changes] = []
    try:
        _commit(load, changes, table, outcome or Outcome(), refused)
    except Exception:
        _discard(refused, load)
        raise
    _discard(refused, load)


def create(catalog: Catalog, table: Table, updates: tuple[TableUpdate, ...], outcome: Outcome | None = None) -> bool:
    """Create a table by ``updates``, whole, and return True; return False if there is another one by now.

    Raises OutcomeUnknownError if it cannot be told whether it was created.
    """
    from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
    from pyiceberg.table.update import AssertCreate

    outcome = outcome or Outcome()

    def is_made() -> bool:
        return _is_made(catalog, table, updates)

    outcome.is_unknown = True
    try:
        send(lambda: catalog.commit_table(table, (AssertCreate(),), updates))
    except (CommitFailedException, TableAlreadyExistsError):
        made = is_made()  # the refusal may answer a request that was sent twice
        outcome.is_unknown = False
        return made
    except Exception as error:
        _settle(error, is_made, outcome)
    outcome.is_unknown = False
    return True


def look_for(is_there: Callable[[], bool]) -> bool:
    """Look several times whether something is there, until it is; errors of a look are no answer."""
    begun = time.monotonic()
    for pause in _LOOKS:
        time.sleep(pause)
        try:
            if is_there():
                return True
        except (RivetError, OSError):
            pass  # the server may answer the next time
        if time.monotonic() - begun > _LOOKING:
            break
    return False


def _commit(
    load: Callable[[], Table],
    changes: Callable[[Table], Changes],
    table: str,
    outcome: Outcome,
    refused: list[Changes],
) -> None:
    from pyiceberg.exceptions import CommitFailedException

    for number in range(_TRIES + 1):
        loaded = load()
        outcome.is_unknown = False
        if any(_is_there(loaded, earlier.updates) for earlier in refused):
            return  # the refusal answered a request that was sent twice
        if number == _TRIES:
            break
        wanted = changes(loaded)
        if not any(_is_wanted(update, loaded) for update in wanted.updates):
            return
        try:
            _commit_once(loaded, wanted, load, outcome)
            return
        except CommitFailedException as error:
            refused.append(wanted)
            last = error
        time.sleep(random.uniform(0, _PAUSE * 2 ** min(number, 5)))
    raise RivetError("RVT-405", f"'{table}' is changed all the time by others: {last}") from last


def _commit_once(iceberg_table: Table, wanted: Changes, load: Callable[[], Table], outcome: Outcome) -> None:
    from pyiceberg.exceptions import BadRequestError, CommitFailedException
    from pyiceberg.table.update import AssertTableUUID

    uuid = AssertTableUUID(uuid=iceberg_table.metadata.table_uuid)
    outcome.is_unknown = True
    try:
        answer = send(
            lambda: iceberg_table.catalog.commit_table(iceberg_table, (uuid, *wanted.requirements), wanted.updates)
        )
    except CommitFailedException:
        raise  # whether it answers this request, or its repetition by a proxy, the table will show
    except Exception as error:
        # The snapshot was numbered upon a state that others, who may have written to branches alone, have overtaken.
        if isinstance(error, ValueError | BadRequestError) and _OVERTAKEN in str(error):
            outcome.is_unknown = False
            raise CommitFailedException(str(error)) from error
        if not wanted.writers:
            raise
        _settle(error, lambda: _is_there(load(), wanted.updates), outcome)
        outcome.is_unknown = False
        return
    outcome.is_unknown = False
    _remove_old_metadata(iceberg_table, answer.metadata)


def _remove_old_metadata(before: Table, after: TableMetadata) -> None:
    """Remove the metadata files that a commit has dropped from the log, if the table's properties say so.

    PyIceberg does the same after the commits that go by its own transactions. The commit is made: what fails here only
    leaves files.
    """
    from pyiceberg.catalog import METADATA, delete_files

    wanted, may = (
        after.properties.get(name, default).lower() == "true"  # as Java reads them
        for name, default in ((REMOVES_METADATA, "false"), ("gc.enabled", "true"))
    )
    if wanted and may:
        retained = {entry.metadata_file for entry in after.metadata_log}
        try:
            delete_files(
                before.io, {entry.metadata_file for entry in before.metadata.metadata_log} - retained, METADATA
            )
        except Exception as error:  # of the storage's client; PyIceberg logs an OSError
            _LOG.warning("old metadata files of %s stay: %r", ".".join(before.name()), error)


def _settle(error: Exception, is_there: Callable[[], bool], outcome: Outcome) -> None:
    """Return if a commit that failed by ``error`` is carried out. Raises OutcomeUnknownError, or ``error`` if not."""
    if is_refusal(error):
        outcome.is_unknown = False
        raise error
    if not look_for(is_there):
        raise OutcomeUnknownError(first_line(error)) from error


def _is_wanted(update: Any, table: Table) -> bool:
    """Return whether an update changes something; of properties, which may be as they should be already."""
    known = table.metadata.properties
    match update.action:
        case "set-properties":
            return any(known.get(name) != value for name, value in update.updates.items())
        case "remove-properties":
            return any(name in known for name in update.removals)
    return True


def _is_there(table: Table, updates: tuple[Any, ...]) -> bool:
    added = {update.snapshot.snapshot_id for update in updates if update.action == "add-snapshot"}
    return bool(added) and added <= {snapshot.snapshot_id for snapshot in table.metadata.snapshots}


def _is_made(catalog: Catalog, table: Table, updates: tuple[Any, ...]) -> bool:
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    uuid = next(update.uuid for update in updates if update.action == "assign-uuid")
    try:
        return bool(catalog.load_table(table.name()).metadata.table_uuid == uuid)
    except (NoSuchTableError, NoSuchNamespaceError):
        return False


def _discard(refused: Sequence[Changes], load: Callable[[], Table]) -> None:
    """Remove what was written for commits that were refused, unless the table has it all the same."""
    writers = [writer for changes in refused for writer in changes.writers]
    if not writers:
        return
    try:
        known = {snapshot.manifest_list for snapshot in load().metadata.snapshots}
    except (RivetError, OSError):
        return  # upkeep removes them as orphans
    for writer in writers:
        if known.isdisjoint(writer.written):
            writer.discard()


PATIENCE = 10.0
"""Seconds that an interrupt, as of a cancelled run, waits for a request that was sent."""

T = TypeVar("T")


class CommitRefusedError(OSError):
    """A commit was not carried out, and will not be."""


def send(request: Callable[[], T]) -> T:
    """Return the answer to a request, which is sent in another thread, so that an interrupt finds it answered or not.

    An interrupt waits for the answer for PATIENCE seconds at most, and is raised after that. Raises what ``request``
    raises.

    >>> send(lambda: "done")
    'done'
    """
    answers: list[T] = []
    errors: list[BaseException] = []
    ended = Event()

    def work() -> None:
        try:
            answers.append(request())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # A daemon thread: a server that does not answer must not keep the process from ending.
    Thread(target=work, name="rivet-commit", daemon=True).start()
    try:
        ended.wait()
    except BaseException:  # KeyboardInterrupt, or what Dagster raises for a cancel
        ended.wait(PATIENCE)
        raise
    if errors:
        raise errors[0]
    return answers[0]


def is_refusal(error: Exception) -> bool:
    """Return whether an error of a commit says that it is not carried out, now or later."""
    from pydantic import ValidationError
    from pyiceberg import exceptions as iceberg
    from requests import ConnectTimeout, RequestException
    from urllib3.exceptions import NewConnectionError

    if isinstance(error, RivetError):  # of an environment that was dropped, whose table is removed again
        return not isinstance(error, NotFound | NotWritable)
    unknown = (iceberg.CommitStateUnknownException, iceberg.ServerError, iceberg.ServiceUnavailableError)
    if isinstance(error, (*unknown, ValidationError)):  # the latter: the answer was cut off
        return False
    if isinstance(error, RequestException):
        reason = getattr(error.args[0], "reason", None) if error.args else None
        return isinstance(error, ConnectTimeout) or isinstance(reason, NewConnectionError)
    if type(error).__module__ == iceberg.__name__:
        return True
    of_this_process = (CommitRefusedError, ValueError, NotImplementedError, PermissionError, FileNotFoundError)
    return isinstance(error, of_this_process)
