"""A version on its way to readers: what it builds upon, what has been written to it, and the switch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rivet_dagster.catalogs.filesystem import heartbeat, publishers, versions
from rivet_dagster.catalogs.filesystem.footers import (
    Marks,
    columns_of,
    marks,
    parquet_files,
    read_footer,
    read_statistics,
    spark_schema,
)
from rivet_dagster.catalogs.filesystem.layout import TableLayout
from rivet_dagster.catalogs.filesystem.manifest import Manifest
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Base, Record, Staged


def base_folder(table: TableLayout, staged: Staged) -> Path | None:
    """The folder of the version that ``staged`` builds upon; None where there is none, or a person removed its files.

    Raises RVT-405 where so many others have published since that it has expired.
    """
    if staged.base is None:
        return None
    folder = table.data(staged.base)
    if parquet_files(folder):
        return folder
    if table.published() == staged.base:
        return None
    message = f"the version {staged.base} of '{staged.table}', which this run began upon, has been removed"
    raise RivetError("RVT-405", message)


def base_of(table: TableLayout, staged: Staged) -> Base | None:
    """That version as an engine reads it, with the columns of its first file. Raises RVT-405."""
    folder = base_folder(table, staged)
    return Base(files_of([folder]), columns_of(parquet_files(folder)[0])) if folder else None


def files_of(paths: list[Path]) -> Files:
    """A version's folder, or some of its files, with the schema that the engine need not look for then."""
    first = next(iter(parquet_files(paths[0]))) if is_folder(paths[0]) else paths[0]
    schema = spark_schema(read_footer(first))
    return Files("parquet", tuple(str(path) for path in paths), {"schema": schema} if schema else {})


def staged_files(folder: Path, shown: str) -> list[Path]:
    """The files of a version, of which a message speaks as ``shown``. Raises RVT-402 where there are none."""
    files = parquet_files(folder)
    if not files:
        raise RivetError(
            "RVT-402",
            f"the engine has written no file to {shown}",
            remediation="Engine and catalog must see one file system: mount the folder where the engine runs.",
        )
    return files


def publish(
    table: TableLayout,
    staged: Staged,
    identity: str,
    record: Record | None,
    audited: Marks | None,
    kept: int,
    shown: str,
) -> Manifest:
    """Switch readers to ``staged``, of which ``kept`` versions stay; ``audited`` are its files as they were judged."""
    if table.published() == staged.version and (done := versions.manifest_of(table, staged.version)):
        return done
    with heartbeat.required(table, staged.version):
        files = staged_files(table.data(staged.version), shown)
        statistics = read_statistics(files)
        if audited is not None and audited != marks(files):
            raise RivetError("RVT-407", f"the files in {shown} have changed since they were judged")
        versions.tidy(table, staged.version)
        versions.sync_data(table, staged.version)
        since = heartbeat.now(table)
    with versions.locked(table):
        version = table.published()
        current = versions.manifest_of(table, version) if version else None
        heartbeat.beat(table, staged.version, since)
        if version != staged.base:
            seen = version or "nothing"
            message = f"'{staged.table}' was at {staged.base or 'nothing'} when this run began and is at {seen} now"
            raise RivetError("RVT-405", message)
        manifest = Manifest.now(staged.version, current, identity, statistics, record, staged.landed, staged.identity)
        manifest.write(table.manifest(staged.version))
        versions.sync(table.home)
        if version is None:
            publishers.forget(table)
            for folder in (table.home, table.home.parent, table.folder):
                versions.sync_entry(folder)
        versions.switch(table, staged.version)
        heartbeat.end(table, staged.version)
        if exists(table.kept(staged.version)):
            table.kept(staged.version).unlink()
        with suppress(OSError, RivetError):  # it is published; the next run tells what is wrong with others
            versions.expire(table, kept)
    return manifest
