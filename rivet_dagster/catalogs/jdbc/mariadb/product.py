"""MariaDB as the catalog knows it: what it cannot do is refused when a project compiles, or found by the doctor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.catalogs.capabilities.sources import Snapshot
from rivet_dagster.catalogs.jdbc.database import Database
from rivet_dagster.catalogs.jdbc.mariadb.columns import wrong_casts
from rivet_dagster.catalogs.jdbc.mariadb.connection import MariaDatabase
from rivet_dagster.catalogs.jdbc.mariadb.kind import MariaKind
from rivet_dagster.catalogs.jdbc.mariadb.reading import DRIVER, PACKAGE, MariaReader, MariaReads
from rivet_dagster.catalogs.jdbc.options import LOCKED, READS, REPLACE_BY, wrong_source, wrong_target
from rivet_dagster.catalogs.jdbc.product import Product, Reader
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import RivetError
from rivet_dagster.machine import refusals
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.write_strategy import WriteStrategy

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


_ONE = "MariaDB shares no snapshot between connections: each query would see another moment"
_CHOOSE = (
    "Say it in the catalog: `reads: locked` keeps others from changing the tables that a group reads as long as it "
    "reads them; with `reads: apart` each query of a run sees the moment at which it begins."
)
_LATE = "MariaDB does not tell which transactions are open, so that rows that are committed late could be missed"


def _wrong_source(options: Mapping[str, Any], joint_options: Mapping[str, Any]) -> Iterator[Wrong]:
    yield from wrong_source(joint_options)
    yield from wrong_casts(joint_options.get("casts"))
    if READS not in options:
        message = "MariaDB shares no snapshot between the queries of a run, and its catalog does not say how it reads"
        yield Wrong("RVT-204", "catalog", message, _CHOOSE)
    if str(joint_options.get("partitions", 1)) != "1" and not is_unexpanded(joint_options.get("partitions")):
        message = f"`partitions` cannot be more than 1: {_ONE}"
        yield Wrong("RVT-204", "options.partitions", message, "Leave `partitions` and `partition_by` out.")
    if "changed_at" in joint_options:
        remedy = "Leave it out: then a row may be missed whose transaction takes longer than another."
        yield Wrong("RVT-204", "options.changed_at", f"`changed_at` cannot be used: {_LATE}", remedy)


def _wrong_target(options: Mapping[str, Any], joint_options: Mapping[str, Any]) -> Iterator[Wrong]:
    yield from wrong_target(joint_options)
    if REPLACE_BY in joint_options:
        message = (
            f"`{REPLACE_BY}` cannot be used: MariaDB commits a RENAME TABLE at once, and what the run has published "
            "could not be recorded in the same transaction"
        )
        yield Wrong("RVT-204", f"options.{REPLACE_BY}", message, "Leave it out: the rows are deleted and inserted.")


def _refuses(strategy: WriteStrategy) -> str | None:
    if strategy.options.get("on_schema_change") == "add":
        return (
            "cannot add columns when it publishes: MariaDB commits an ALTER TABLE at once, before the rows; change the "
            "table by hand, and use `on_schema_change: fail` or `ignore`"
        )
    return None


def _schema(options: Mapping[str, Any]) -> str:
    if "schema" in options:
        return str(options["schema"])
    return MariaDatabase("", str(options.get("url", ""))).name


def _snapshot(reader: Reader, tables: int, connections: int, options: Mapping[str, Any]) -> Snapshot:
    assert isinstance(reader, MariaReader)
    return MariaReads(reader, options.get(READS) == LOCKED)


def _reader(database: Database, resolve: Any, driver: str) -> Reader:
    return MariaReader(database, resolve, driver)


MARIA = Product(
    name="MariaDB",
    driver=DRIVER,
    package=PACKAGE,
    kind=MariaKind(),
    database=MariaDatabase,
    schema=_schema,
    reader=_reader,
    snapshot=_snapshot,
    examine=examine,
    wrong_source=_wrong_source,
    wrong_target=_wrong_target,
    refuses=_refuses,
)
