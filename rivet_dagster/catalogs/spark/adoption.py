"""Taking over a table of Hive that somebody else has made, as the first version of a joint's table.

The files of the table are linked into a folder of versions, and one change of the metastore makes that the location of
the table, whose definition, properties and rights stay. The files where they were stay, too: readers that have listed
them find them, and the table gets its location back if it is given up. Beside the version lies a file that names it::

    /warehouse/sales.db/orders/                                      before
    /warehouse/sales.db/.rivet/orders/00000001-5be2f7c3/             after
    /warehouse/sales.db/.rivet/orders/00000001-5be2f7c3.adopted

The files of a version are no buckets, and Spark does not read a table of others. So the same change takes the buckets
from the table, and the file beside the version holds them, too, for a table that is given up.

What was not switched has no table that leads to it, and is removed by the next attempt.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.data_files import Footers, share
from rivet_dagster.catalogs.filesystem.files.file_status import damage, is_folder, names_in
from rivet_dagster.catalogs.filesystem.files.footers import is_data, parquet_files
from rivet_dagster.catalogs.filesystem.files.parquet_folder import ParquetFolder
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.filesystem.versions.layout import ADOPTED_FROM, TableLayout, versions_with
from rivet_dagster.catalogs.filesystem.versions.records import forget_publishers, read_manifest, write_manifest
from rivet_dagster.catalogs.spark.definition import Buckets
from rivet_dagster.catalogs.spark.metastore import Described, Metastore
from rivet_dagster.catalogs.spark.names import SparkTableName
from rivet_dagster.catalogs.versions.facts import ADOPTED
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.catalogs.versions.refusals import published_since
from rivet_dagster.errors import NotWritable, RivetError
from rivet_dagster.file_replacement import replace_file, sync
from rivet_dagster.model.relations import CatalogTable, Files
from rivet_dagster.model.storage import ExistingTable, Provenance, Record, Statistics

_WRITE_ANEW = "Read it as a source, and write its rows to a table of another name."


def describe(metastore: Metastore, name: SparkTableName, described: Described) -> ExistingTable:
    """Return a table that can be taken over. Raises RVT-404 for one that no version can be, OSError."""
    files, columns = _files_of(metastore, name, described), metastore.columns(name)
    statistics = Statistics(0, 0) if files is None else files.statistics
    layout = {"format": described.format, "location": str(described.location), "partitions": "none"}
    if described.buckets:
        layout["buckets"] = f"{described.buckets}, which the table has no more then"
    return ExistingTable(".".join(name.identifier), replace(statistics, columns=columns), layout)


def adopt(table: TableLayout, metastore: Metastore, name: SparkTableName) -> Manifest | None:
    """Make the files of the table its first version, and return what is published; None if there is no table.

    Raises RVT-404, OSError.
    """
    if metastore.describe(name) is None:
        return None
    lifecycle.make_durable(table.home)
    with lifecycle.hold_lock(table):
        published, described = published_version(table), metastore.describe(name)
        if published is not None or described is None:
            return None if published is None else lifecycle.manifest_of(table, published)
        files = _files_of(metastore, name, described)
        before = {path.name for path in files.files} if files is not None else set()
        remove_unswitched(table)
        version = table.new_version()
        data = table.data(version)
        # First, since by this file the next attempt finds what is left of this one.
        buckets = metastore.buckets(name) if described.buckets else None
        before_it = {"location": str(described.folder), "buckets": None if buckets is None else asdict(buckets)}
        replace_file(table.adopted(version), json.dumps(before_it).encode(), table.home / f".{version}{ADOPTED_FROM}")
        data.mkdir()
        if files is not None:
            for path in files.files:
                share(path, data / path.name)
        else:
            session = metastore.session
            session.write(session.load(CatalogTable(name.identifier)), Files("parquet", (str(data),)))
        copied = lifecycle.tidy(data, Footers())
        footers = Footers() if files is None else files.footers
        statistics = footers.statistics(copied)
        manifest = Manifest.now(version, None, ADOPTED, statistics, Provenance(record=Record(0)))
        footers.write(copied, table.files(version))
        lifecycle.sync_data(table, version)
        write_manifest(manifest, table.manifest(version))
        sync(table.home)
        forget_publishers(table)
        if described.folder is not None and _data_names(described.folder) != before:
            lifecycle.remove(table, version)
            raise RivetError("RVT-405", f"{name} has been written to by somebody while it was taken over")
        if buckets is None:
            metastore.set_location(name, data)
        else:
            metastore.set_buckets(name, data, None)
    return manifest


def give_up(table: TableLayout, metastore: Metastore, name: SparkTableName) -> bool:
    """Give the table its location and its buckets back, and return whether it was taken over.

    Raises RVT-404 if another version has been published, or rows have been written, since, or the files at the old
    location are gone; OSError.
    """
    if not is_folder(table.home):
        return False
    with lifecycle.hold_lock(table):
        adopted = adopted_version(table)
        if adopted is not None:
            old, buckets = _before(table, adopted.version)
            _require_same_rows(table, adopted.version, adopted.rows, old)
            if buckets is None:
                metastore.set_location(name, old)
            else:
                metastore.set_buckets(name, old, buckets)
        remove_unswitched(table)
    return adopted is not None


def _files_of(metastore: Metastore, name: SparkTableName, described: Described) -> ParquetFolder | None:
    """Return the files of a table; None if it has none. Raises RVT-404 for a table that no version can be."""
    folder, why = described.folder, described.unlike_version
    if folder is None or why is not None:
        raise refused(name, str(why))
    if not _data_names(folder):
        return None
    files = ParquetFolder.of(folder)
    stored = {column.lower(): type_ for column, type_ in files.statistics.columns}
    known = {column.lower(): type_ for column, type_ in metastore.columns(name)}
    if stored != known:
        differing = ", ".join(sorted({column for column, _ in stored.items() ^ known.items()}))
        raise refused(name, f"has other columns than its files: {differing}")
    return files


def refused(name: SparkTableName, why: str, remedy: str = _WRITE_ANEW) -> RivetError:
    """Return RVT-404 for a table that is not taken over; ``why`` is the end of a sentence."""
    return RivetError("RVT-404", f"{name} cannot be taken over: it {why}", remediation=remedy)


def _data_names(folder: Path) -> set[str]:
    return {name for name in names_in(folder) if is_data(name)}


def adopted_version(table: TableLayout) -> Manifest | None:
    """Return the manifest of the version that was taken over; None if there is none.

    Raises RVT-404 if another version has been published since.
    """
    version = published_version(table)
    manifest = read_manifest(table.manifest(version)) if version is not None else None
    if version is not None and (manifest is None or manifest.identity != ADOPTED):
        raise published_since(table.name, version, manifest.identity if manifest is not None else "")
    return manifest


def published_version(table: TableLayout) -> str | None:
    """Return the version that is published; None if somebody else has made the table, or there is none."""
    try:
        return table.published()
    except NotWritable:
        return None


def _before(table: TableLayout, version: str) -> tuple[Path, Buckets | None]:
    """Return the location and the buckets that the table had."""
    file = table.adopted(version)
    with damage(file, "Set the table's location by hand: ALTER TABLE ... SET LOCATION."):
        before = json.loads(file.read_text("utf-8"))
        folder, buckets = Path(before["location"]), before.get("buckets")
        buckets = None if buckets is None else Buckets(**buckets)
    if not is_folder(folder):
        message = f"'{table.name}' was taken over from {folder}, which is gone"
        raise RivetError("RVT-404", message, remediation="Keep the version that was taken over.")
    return folder, buckets


def _require_same_rows(table: TableLayout, version: str, rows: int, old: Path) -> None:
    """Raise RVT-404 if somebody has written to the version of that many rows, whose files were those of ``old``."""
    data = table.data(version)
    files = parquet_files(data)
    now = Footers(table.files(version)).statistics(files).rows if files else 0
    if now != rows:
        message = (
            f"'{table.name}' has {now:,} rows, and had {rows:,} when it was taken over: somebody has written to it"
        )
        raise RivetError("RVT-404", message, remediation=f"Make the files in {old} those in {data}, then try it again.")


def remove_unswitched(table: TableLayout) -> None:
    """Remove versions that were to be taken over, or were, while no version is the location of the table."""
    for version in versions_with(names_in(table.home), ADOPTED_FROM):
        lifecycle.remove(table, version)
