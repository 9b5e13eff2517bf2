"""The one transaction of a database in which versions are published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rivet_dagster.catalogs.jdbc.database import Connection, Database
from rivet_dagster.catalogs.jdbc.product import DatabaseKind
from rivet_dagster.catalogs.jdbc.published.layout import layout_of, refuse_changes
from rivet_dagster.catalogs.jdbc.published.records import Records, swept_away
from rivet_dagster.catalogs.jdbc.published.stored_version import (
    PUBLISHED,
    WITHHELD,
    PlannedWrite,
    Statement,
    StoredVersion,
)
from rivet_dagster.errors import RivetError
from rivet_dagster.model.row_errors import ERROR_TYPES
from rivet_dagster.model.storage import Record
from rivet_dagster.sql.database_definitions import create_table_like, drop_table
from rivet_dagster.sql.database_queries import count_of, source_rows
from rivet_dagster.sql.database_trees import Name
from rivet_dagster.sql.database_writes import delete_rows, insert_rows
from rivet_dagster.sql.write_strategies.trees import Columns


@dataclass(frozen=True)
class Publication:
    """A version that is to be published after ``upon``, the current one of its table when it was begun."""

    version: StoredVersion
    upon: StoredVersion | None


Names = Callable[[str], Name]
"""A function that returns schema and name of the table with a key."""


def publish(
    database: Database, kind: DatabaseKind, records: Records, publications: Sequence[Publication], names: Names
) -> list[StoredVersion]:
    """Publish all of them, or none, and return them as they are stored; ``names`` says where their tables are.

    Raises RVT-405 for each table of which another version has been published since, RVT-406 if the run counts as dead,
    RVT-407 if staged rows are missing, RVT-404, RVT-510 and RVT-527 as the database refuses it. If the answer to the
    COMMIT is lost, the database is asked whether the versions are there.
    """
    table = ", ".join(one.version.table for one in publications)
    with database.connect_to_write(table) as connection:
        if not kind.changes_tables_in_transactions:
            kind.limit_locks(connection)
            _make_tables(database, connection, kind, records, publications, names)
        with _committed(database, records, connection, publications):
            kind.limit_locks(connection)
            turns = _in_turn(connection, records, publications)
            return [_publish(connection, kind, records, one, names) for one in turns]


@contextmanager
def _committed(
    database: Database, records: Records, connection: Connection, publications: Sequence[Publication]
) -> Iterator[None]:
    """Commit the block as one transaction; an error of the COMMIT itself counts only if it was not carried out."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        with suppress(database.errors):  # a lost connection has ended the transaction, too
            connection.execute("ROLLBACK")
        raise
    try:
        connection.execute("COMMIT")
    except database.errors as error:
        if not database.is_lost(error):
            raise
        with database.connect() as other:
            recorded = [records.version(other, one.version.table, one.version.version) for one in publications]
        if not all(version is not None and version.state == PUBLISHED for version in recorded):
            raise


def _in_turn(connection: Connection, records: Records, publications: Sequence[Publication]) -> list[Publication]:
    """Have each version be the next one of its table, in the order of the tables, so that two runs wait for each other.

    Raises RVT-405, RVT-406.
    """
    overtaken = []
    for one in sorted(publications, key=lambda one: one.version.table):
        version = one.version
        stored = records.version(connection, version.table, version.version)
        alive = stored is not None and (stored.state == WITHHELD or records.is_alive(connection, version.version))
        if stored is None or not alive:
            raise swept_away(version.version, version.table)
        if not records.publish(connection, version, one.upon):
            overtaken.append(version.table)
    if overtaken:
        names = ", ".join(f"'{name}'" for name in overtaken)
        raise RivetError("RVT-405", f"{names} has been published by another run since this one began")
    return list(publications)


def _make_tables(
    database: Database,
    connection: Connection,
    kind: DatabaseKind,
    records: Records,
    publications: Sequence[Publication],
    names: Names,
) -> None:
    """Make the tables that are published for the first time, without rows, where the transaction cannot.

    A sweep removes them like staged ones as long as they have not been published. Raises RVT-405 if another run has
    just made one of them, RVT-514 if a table needs other columns.
    """
    for one in sorted(publications, key=lambda one: one.version.table):
        version = one.version
        for new in _tables_of(one):
            name = names(new.key)
            maker = records.stager_of(connection, name)
            if maker not in (None, version.version):
                raise _published_by_others(new.key)
            existing = kind.find_target(connection, name)
            if existing is not None and maker is None and new.key == version.table and one.upon is None:
                raise _made_by_others(new.key)
            if existing is not None:
                if new.columns:
                    refuse_changes(kind, name, existing, layout_of(kind, name, existing, new.columns, replaces=True))
                continue
            layout = layout_of(kind, name, None, new.columns, replaces=True)
            made = layout.changes if new.like is None else [create_table_like(name, new.like, kind.dialect)]
            try:
                records.add_staged(connection, name, version.version)
            except database.errors as error:
                if not database.is_duplicate(error):
                    raise
                raise _published_by_others(new.key) from error
            try:
                for statement in made:
                    connection.execute(statement)
            except database.errors as error:
                if not kind.has_table(connection, name):
                    raise
                records.forget_staged(connection, name)  # else a sweep would drop it
                raise _made_by_others(new.key) from error
            if new.keys and new.like is None:
                kind.index_keys(connection, name, layout.named(new.keys))


@dataclass(frozen=True)
class _Table:
    """A table that a publication needs: ``like`` another one, or with the ``columns`` and an index on the ``keys``.

    One without columns that is there stays as it is.
    """

    key: str
    columns: Columns = ()
    keys: tuple[str, ...] = ()
    like: Name | None = None


def _tables_of(one: Publication) -> Iterator[_Table]:
    """Yield the tables that the rows of a publication go to, which may be there already."""
    version, write = one.version, one.version.write
    assert write is not None
    if write.rows is not None or write.like is not None:
        yield _Table(version.table, write.columns, write.keys, write.like)
    if version.errors is not None and (one.upon is None or one.upon.errors != version.errors):
        yield _Table(version.errors, tuple(ERROR_TYPES.items()))


def _publish(
    connection: Connection, kind: DatabaseKind, records: Records, one: Publication, names: Names
) -> StoredVersion:
    version, write, manifest = one.version, one.version.write, one.version.manifest
    assert write is not None and manifest is not None
    for schema, name, rows in write.staged:
        _refuse_missing(connection, kind, version.table, (schema, name), rows)
    target = names(version.table)
    if one.upon is None and kind.changes_tables_in_transactions and kind.has_table(connection, target):
        raise _made_by_others(version.table)
    if write.like is not None and not kind.has_table(connection, target):
        connection.execute(create_table_like(target, write.like, kind.dialect))
    if write.swaps and write.rows is not None:
        kind.swap(connection, target, write.rows)
        (inserted,) = (rows for *name, rows in write.staged if tuple(name) == write.rows)
        counts = Record(inserted, deleted=manifest.rows_before)
    else:
        statements = write.statements if write.rows is None else _replacing(connection, kind, target, write)
        counts = _carried_out(connection, statements)
    # Behind the statements, each of which sees what has been committed before it.
    if write.requires is not None and not (connection.execute(write.requires).fetchone() or (False,))[0]:
        raise RivetError("RVT-405", f"the base of '{version.table}' has been published since the run began")
    _publish_errors(connection, kind, records, one, names)
    if not kind.changes_tables_in_transactions:
        records.forget_staged(connection, target)
    before = one.upon.manifest.rows if one.upon is not None and one.upon.manifest is not None else manifest.rows_before
    rows = counts.inserted if write.rows is not None else before + counts.inserted - counts.deleted
    published = replace(
        manifest,
        base=one.upon.version if one.upon is not None else None,
        rows=rows,
        rows_before=before,
        record=manifest.record if write.keeps_record else replace(counts, bytes=manifest.record.bytes),
        published_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    stored = replace(version, state=PUBLISHED, manifest=published)
    records.record(connection, stored)
    return stored


def _refuse_missing(connection: Connection, kind: DatabaseKind, table: str, name: Name, rows: int) -> None:
    """Raise RVT-407 if the staged rows are not those that were judged: a crash of the database empties their tables."""
    (counted,) = connection.execute(count_of(name, kind.dialect)).fetchone() or (0,)
    if counted != rows:
        message = f"{rows} rows of '{table}' were staged and judged, and {counted} are there"
        raise RivetError("RVT-407", message, remediation="Run it again: the database has lost or changed them.")


def _published_by_others(table: str) -> RivetError:
    return RivetError("RVT-405", f"'{table}' is just being published by another run")


def _made_by_others(table: str) -> RivetError:
    return RivetError("RVT-405", f"somebody else has made a table '{table}' since the run began")


def _replacing(connection: Connection, kind: DatabaseKind, target: Name, write: PlannedWrite) -> list[Statement]:
    """Return the statements by which a table, or a new one, becomes the staged rows."""
    assert write.rows is not None
    existing = kind.find_target(connection, target)
    layout = layout_of(kind, target, existing, write.columns, replaces=True)
    rows = source_rows(write.rows, [column.name for column in layout.columns])
    deleted = [Statement(delete_rows(target, None, kind.dialect), "deleted")] if existing is not None else []
    insert = Statement(insert_rows(target, layout.columns, rows, kind.dialect), "inserted")
    return [*deleted, *map(Statement, layout.changes), insert]


def _publish_errors(
    connection: Connection, kind: DatabaseKind, records: Records, one: Publication, names: Names
) -> None:
    """Have the error table become that of the version, or go: afterwards, where a transaction drops no tables."""
    version, write = one.version, one.version.write
    before, now = (one.upon.errors if one.upon is not None else None), version.errors
    assert write is not None
    if before is not None and before != now:
        if kind.changes_tables_in_transactions:
            connection.execute(drop_table(names(before), kind.dialect))
        else:
            records.add_staged(connection, names(before), version.version)
    if now is None:
        return
    layout = layout_of(kind, names(now), None, tuple(ERROR_TYPES.items()), replaces=True)
    if before != now and kind.changes_tables_in_transactions:
        for change in layout.changes:
            connection.execute(change)
    else:
        connection.execute(delete_rows(names(now), None, kind.dialect))
    for staged in write.errors:
        rows = source_rows(staged, list(ERROR_TYPES))
        connection.execute(insert_rows(names(now), layout.columns, rows, kind.dialect))
    if not kind.changes_tables_in_transactions:
        records.forget_staged(connection, names(now))


def _carried_out(connection: Connection, statements: Sequence[Statement]) -> Record:
    counts = {"inserted": 0, "updated": 0, "deleted": 0}
    for statement in statements:
        cursor = connection.execute(statement.sql)
        if statement.counts == "upserted":
            inserted, updated = cursor.fetchone() or (0, 0)
            counts["inserted"] += inserted
            counts["updated"] += updated
        elif statement.counts:
            counts[statement.counts] += cursor.rowcount
    return Record(**counts)
