"""Publishing the tables of a run on Nessie: in one commit of the branch, or not at all."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import OutcomeUnknownError
from rivet_dagster.catalogs.iceberg.nessie.one_commit import OneCommit
from rivet_dagster.catalogs.iceberg.nessie.server import NessieConflictError
from rivet_dagster.catalogs.iceberg.writes.unknown_outcome import unknown_outcome
from rivet_dagster.errors import Conflict, RivetError

if TYPE_CHECKING:
    from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction
    from rivet_dagster.model.storage import Published

_TRIES, _PAUSE = 20, 0.1


def publish_together(branch: NessieCatalog, staged: Sequence[tuple[IcebergTransaction, str]]) -> tuple[Published, ...]:
    """Publish versions under their identities. Raises what ``PublishesTogether.publish_together`` does, and RVT-419.

    Nessie refuses a commit if one of its tables has changed in any way since: it is made again upon the branch as it is
    then, if no other version of these tables has been published, and others have only staged theirs.
    """
    names = [str(transaction.beginning.table.published.name) for transaction, _ in staged]
    for number in range(_TRIES):
        commit = _released(branch, staged)
        try:
            commit.publish(f"Publish {', '.join(names)}")
            break
        except NessieConflictError as error:
            commit.discard()
            last = error
        except OutcomeUnknownError as error:
            identities = ", ".join(dict.fromkeys(identity for _, identity in staged))
            raise unknown_outcome(f"each of the tables {', '.join(names)}", identities, error) from error
        time.sleep(random.uniform(0, _PAUSE * 2 ** min(number, 5)))
    else:
        message = f"{', '.join(names)} are changed all the time by others: {last}"
        raise RivetError("RVT-405", message) from last
    return tuple(transaction.released() for transaction, _ in staged)


def _released(branch: NessieCatalog, staged: Sequence[tuple[IcebergTransaction, str]]) -> OneCommit:
    """Return the commit, not made yet, that publishes all versions. Raises RVT-405 for all tables that have moved."""
    commit = OneCommit(branch)
    moved: list[RivetError] = []
    for transaction, _ in staged:
        try:
            transaction.check_base_in(commit)
        except Conflict as error:
            moved.append(error)
    if moved:
        raise RivetError.of(diagnostic for error in moved for diagnostic in error.diagnostics)
    try:
        for transaction, identity in staged:
            transaction.release_in(commit, identity)
    except BaseException:
        commit.discard()
        raise
    return commit
