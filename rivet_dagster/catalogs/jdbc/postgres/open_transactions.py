"""The transactions of a database that are open, whose rows a snapshot does not have, and a later one may.

A row has the time at which its transaction began, and is seen when that has ended: whoever reads the rows with times
after the greatest one that he knows misses those of a transaction that took longer than another.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.jdbc.database import READER
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    import psycopg

_MARGIN = 5
"""Seconds: a transaction takes its time a little before it is listed."""

_OPEN = """
SELECT least(clock_timestamp(), min(xact_start)) - make_interval(secs => %s),
       count(*) FILTER (WHERE query = '<insufficient privilege>'),
       (SELECT min(prepared) FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()),
       pg_is_in_recovery()
FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
AND application_name NOT IN (%s, 'pg_dump') AND backend_type IS DISTINCT FROM 'autovacuum worker'
"""


@dataclass(frozen=True)
class OpenTransactions:
    """Facts about the transactions that are open.

    ``oldest`` is before the time of each that the user may see; ``hidden`` is the number of sessions that he may not,
    ``prepared`` the time of the oldest one that waits for its second phase. On a replica nothing is known of them.
    """

    oldest: datetime
    hidden: int
    prepared: datetime | None
    on_replica: bool

    def all_before(self) -> str:
        """Return the time of ISO 8601 before which a snapshot that is taken later has all rows. Raises RVT-403."""
        remedy = "Leave `changed_at` out: then a row may be missed whose transaction takes longer than another."
        why = None
        if self.on_replica:
            why = "a replica does not know of them"
        elif self.hidden:
            why = f"the user may not see {self.hidden} sessions of others"
            remedy = f"Grant the user the role pg_read_all_stats. {remedy}"
        elif self.prepared is not None:
            why = f"one is prepared, since {self.prepared.isoformat()}, and does not tell when it began"
        if why is not None:
            message = f"`changed_at` needs the times of all open transactions of the database, and {why}"
            raise RivetError("RVT-403", message, remediation=remedy)
        return self.oldest.isoformat()


def open_transactions(connection: psycopg.Connection[Any]) -> OpenTransactions:
    """Return what is known of the transactions that are open now; ``connection`` has none."""
    row = connection.execute(_OPEN, (_MARGIN, READER)).fetchone()
    assert row is not None
    return OpenTransactions(*row)
