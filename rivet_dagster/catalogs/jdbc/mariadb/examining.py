"""Findings of whether a database of MariaDB can be reached, for the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rivet_dagster.catalogs.jdbc.database import Database
from rivet_dagster.errors import RivetError
from rivet_dagster.machine import refusals
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

_OLDEST = (10, 11)
_SECONDS = 60
_REMEDY = "Start it, or correct the catalog's `url`."
_FACTS = (
    "SELECT version(), utc_timestamp(), current_user(), @@read_only, "
    "(SELECT count(*) FROM information_schema.schemata WHERE schema_name = %s)"
)


def examine(subject: str, database: Database, schema: str, publishes: bool) -> Iterator[Finding]:
    """Yield findings of reaching the database, its version and clock, and of writing to ``schema``."""
    servers = database.servers
    unreached = refusals(servers)
    if len(unreached) == len(servers):
        for server, why in unreached.items():
            message = f"no database answers at {server}: {why}"
            yield from broken(subject, RivetError("RVT-403", message, remediation=_REMEDY))
        return
    try:
        with database.connect() as connection:
            version, now, user, read_only, is_there = connection.execute(_FACTS, (schema,)).fetchone()
    except RivetError as error:
        yield from broken(subject, error)
        return
    yield in_order(subject, f"MariaDB {version} answers at {database.uri}, and {user} may log in")
    if tuple(int(part) for part in str(version).split(".")[:2]) < _OLDEST or "MariaDB" not in str(version):
        yield doubtful(subject, f"{version} is no MariaDB 10.11 or newer, and was not tried", "Update the database.")
    if read_only and publishes:
        text = "it can only be read, like a replica, so that nothing can be published to it"
        yield from broken(subject, RivetError("RVT-404", text, remediation="Name the primary server in its `url`."))
    elif not is_there:
        remedy = "Correct the catalog's `schema`, or have its user be granted rights there."
        yield from broken(
            subject, RivetError("RVT-403", f"it has no database {schema} for its user", remediation=remedy)
        )
    apart = abs((datetime.now(UTC) - now.replace(tzinfo=UTC)).total_seconds())
    if apart > _SECONDS:
        text = f"its clock and that of this machine differ by {apart:.0f} seconds"
        yield doubtful(subject, text, "Have both set their clocks by a time server.")
