"""Taking over a folder of Parquet files that somebody else has made, as the first version of a table.

The folder itself becomes that of the version: it and the link that readers are to open are exchanged in one step::

    <path>/orders/                                                    before
    <path>/.rivet/orders/00000001-5be2f7c3 -> .rivet/orders/00000001-5be2f7c3
    <path>/orders -> .rivet/orders/00000001-5be2f7c3                  after
    <path>/.rivet/orders/00000001-5be2f7c3/

So readers find the same files by the same paths at every moment, and no file is copied. Without the exchange the link
in the folder of the versions leads nowhere, and is removed by the next attempt. Giving a table up is the same exchange.

The files in subfolders of partitions are written anew into the folder of the version. Then the folder is exchanged for
a link beside the version, where it stays until this expires::

    <path>/.rivet/orders/00000001-5be2f7c3/
    <path>/.rivet/orders/00000001-5be2f7c3.adopted -> .rivet/orders/00000001-5be2f7c3   before
    <path>/orders -> .rivet/orders/00000001-5be2f7c3                                    after
    <path>/.rivet/orders/00000001-5be2f7c3.adopted/                                     after
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.data_files import Footers
from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder, is_link, names_in
from rivet_dagster.catalogs.filesystem.files.parquet_folder import ParquetFolder
from rivet_dagster.catalogs.filesystem.files.partitioned_folder import PartitionedFolder
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.filesystem.versions.layout import ADOPTED_FROM, TableLayout, is_version_name, versions_with
from rivet_dagster.catalogs.filesystem.versions.records import forget_publishers, read_manifest, write_manifest
from rivet_dagster.catalogs.versions.facts import ADOPTED
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.catalogs.versions.refusals import published_since
from rivet_dagster.errors import NotWritable, RivetError
from rivet_dagster.file_replacement import exchange, sync
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.storage import ExistingTable, Provenance, Record, Statistics


def existing(table: TableLayout, uri: str, partitioned_by: Schema) -> ExistingTable | None:
    """Return the folder at the table's path; None if there is none, or a link to a version. Raises RVT-404, OSError."""
    if not _is_of_others(table):
        return None
    partitioned = PartitionedFolder.of(table.link, partitioned_by)
    return (partitioned or ParquetFolder.of(table.link)).describe(uri)


def adopt(table: TableLayout, partitioned_by: Schema) -> Manifest | None:
    """Make the folder at the table's path its first version, and return what is published now; None if nothing is.

    Raises RVT-402 if the file system cannot exchange a folder for a link, RVT-404, RVT-405 if somebody has written to
    partitions meanwhile, OSError.
    """
    if not exists(table.link, follow=False):
        return None
    lifecycle.make_durable(table.home)
    with lifecycle.hold_lock(table):
        remove_unexchanged(table)
        if not _is_of_others(table):
            version = table.published()
            return None if version is None else lifecycle.manifest_of(table, version)
        version = table.new_version()
        partitioned = PartitionedFolder.of(table.link, partitioned_by)
        if partitioned is None:
            return _adopt_itself(table, version)
        try:
            return _adopt_anew(table, version, partitioned)
        except BaseException:
            remove_unexchanged(table)
            raise


def _adopt_itself(table: TableLayout, version: str) -> Manifest:
    """Have the folder at the table's path be that of the version."""
    folder = ParquetFolder.of(table.link)
    manifest = _manifest(version, folder.statistics)
    # First, since by this link the next attempt finds what is left of this one.
    os.symlink(table.link_text(version), table.rows_alone(version))
    folder.footers.write(folder.files, table.files(version))
    write_manifest(manifest, table.manifest(version))
    sync(table.home)
    forget_publishers(table)
    _exchange(table, table.rows_alone(version))
    return manifest


def _adopt_anew(table: TableLayout, version: str, partitioned: PartitionedFolder) -> Manifest:
    """Write the rows of the folder at the table's path anew into that of the version."""
    before, data, aside = partitioned.stamps, table.rows_alone(version), table.adopted(version)
    # First, since by this link the next attempt finds what is left of this one.
    os.symlink(table.link_text(version), aside)
    data.mkdir()
    partitioned.write_flat(data)
    footers = Footers()
    files = lifecycle.tidy(data, footers)
    manifest = _manifest(version, footers.statistics(files))
    footers.write(files, table.files(version))
    lifecycle.sync_data(table, version)
    write_manifest(manifest, table.manifest(version))
    sync(table.home)
    forget_publishers(table)
    if partitioned.stamps != before:
        raise RivetError("RVT-405", f"{table.link} has been written to by somebody while it was taken over")
    _exchange(table, aside)
    return manifest


def _manifest(version: str, statistics: Statistics) -> Manifest:
    return Manifest.now(version, None, ADOPTED, statistics, Provenance(record=Record(0)))


def give_up(table: TableLayout) -> bool:
    """Put the folder of the adopted version back at the table's path; return whether there was one.

    Raises RVT-404 if another version has been published since, OSError.
    """
    if not is_folder(table.home):
        return False
    with lifecycle.hold_lock(table):
        version = None if _is_of_others(table) else table.published()
        if version is not None:
            manifest = read_manifest(table.manifest(version))
            if manifest is None or manifest.identity != ADOPTED:
                raise published_since(table.name, version, manifest.identity if manifest is not None else "")
            aside = table.adopted(version)
            _exchange(table, aside if exists(aside, follow=False) else table.rows_alone(version))
        remove_unexchanged(table)
    return version is not None


def _is_of_others(table: TableLayout) -> bool:
    """Return whether there is a folder at the table's path; RVT-404 for a file, or a link to elsewhere."""
    try:
        table.published()
    except NotWritable:
        if is_link(table.link) or not is_folder(table.link):
            raise
        return True
    return False


def _exchange(table: TableLayout, other: Path) -> None:
    """Exchange what is at the table's path for what is at that of ``other``, durably."""
    with _translated(table):
        exchange(table.link, other)
    sync(table.folder)
    sync(table.home)


@contextmanager
def _translated(table: TableLayout) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EXDEV, errno.EBUSY):
            raise
        message = f"the file system of {table.link} does not exchange a folder for a link in one step: {error.strerror}"
        remedy = "Read the folder as a source, and write its rows to a table of another name."
        raise RivetError("RVT-402", message, remediation=remedy) from error


def find_unexchanged(table: TableLayout) -> list[str]:
    """Return the versions whose exchange did not happen, or was undone: there are links where a folder would be.

    With the lock held these are left over.
    """
    names = names_in(table.home)
    itself = {name for name in names if is_version_name(name) and is_link(table.home / name)}
    anew = {version for version in versions_with(names, ADOPTED_FROM) if is_link(table.adopted(version))}
    return sorted(itself | anew)


def remove_unexchanged(table: TableLayout) -> list[str]:
    """Remove those versions, and return them."""
    versions = find_unexchanged(table)
    for version in versions:
        folder = table.rows_alone(version)
        if not is_link(folder):
            lifecycle.remove(table, version)
            continue
        for path in (table.manifest(version), table.files(version), table.watermark(version), folder):
            path.unlink(missing_ok=True)  # the link last, by which the others are found
    return versions
