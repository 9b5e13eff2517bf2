"""Commits: several updates of a table's metadata in one atomic step of the catalog."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter

_TRIES, _PAUSE = 12, 0.1
_OVERTAKEN = "older than last sequence number"


@dataclass(frozen=True)
class Changes:
    """The updates of one commit, none if it is not needed, and what must hold when it happens.

    ``writers`` are those of the snapshots that it adds.
    """

    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()
    writers: tuple[SnapshotWriter, ...] = ()


def commit(load: Callable[[], Table], changes: Callable[[Table], Changes], table: str) -> None:
    """Commit what ``changes`` returns for the table as ``load`` finds it, in one step.

    Other commits to the table that come between are no obstacle as long as ``changes`` accepts the table that they
    leave: it raises the error for one that it does not. Raises RVT-405 if others keep committing.
    """
    from pyiceberg.exceptions import CommitFailedException

    for number in range(_TRIES):
        found = load()
        wanted = changes(found)
        if not wanted.updates:
            return
        try:
            _commit_once(found, wanted, load)
            return
        except CommitFailedException as error:
            for writer in wanted.writers:
                writer.discard()
            last = error
        time.sleep(random.uniform(0, _PAUSE * 2 ** min(number, 5)))
    raise RivetError("RVT-405", f"'{table}' is changed all the time by others: {last}") from last


def create(catalog: Catalog, table: Table, updates: tuple[TableUpdate, ...]) -> bool:
    """Create a table by ``updates``, whole, and return True; return False if there is one by now."""
    from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
    from pyiceberg.table.update import AssertCreate

    try:
        catalog.commit_table(table, (AssertCreate(),), updates)
    except (CommitFailedException, TableAlreadyExistsError):
        return False
    return True


def _commit_once(found: Table, wanted: Changes, load: Callable[[], Table]) -> None:
    from pyiceberg.exceptions import BadRequestError, CommitFailedException, CommitStateUnknownException
    from pyiceberg.table.update import AssertTableUUID
    from requests import RequestException

    uuid = AssertTableUUID(uuid=found.metadata.table_uuid)
    try:
        found.catalog.commit_table(found, (uuid, *wanted.requirements), wanted.updates)
    except (CommitStateUnknownException, RequestException):
        # The server may have carried it out and its answer been lost.
        if not _is_there(load(), wanted.updates):
            raise
    except (ValueError, BadRequestError) as error:
        # The snapshot was numbered upon a state that others, who may have written to branches alone, have overtaken.
        if _OVERTAKEN not in str(error):
            raise
        raise CommitFailedException(str(error)) from error


def _is_there(table: Table, updates: tuple[Any, ...]) -> bool:
    added = {update.snapshot.snapshot_id for update in updates if update.action == "add-snapshot"}
    return bool(added) and added <= {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
