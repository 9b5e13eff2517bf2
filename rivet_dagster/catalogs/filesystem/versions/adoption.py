"""Taking over a folder of Parquet files that somebody else has made, as the first version of a table.

The folder itself becomes that of the version: it and the link that readers are to open are exchanged in one step::

    <path>/orders/                                                    before
    <path>/.rivet/orders/00000001-5be2f7c3 -> .rivet/orders/00000001-5be2f7c3
    <path>/orders -> .rivet/orders/00000001-5be2f7c3                  after
    <path>/.rivet/orders/00000001-5be2f7c3/

So readers find the same files by the same paths at every moment, and no file is copied. Without the exchange the link
in the folder of the versions leads nowhere, and is removed by the next attempt. Giving a table up is the same exchange.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder, is_link, names_in
from rivet_dagster.catalogs.filesystem.files.parquet_folder import ParquetFolder
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout, is_version_name
from rivet_dagster.catalogs.filesystem.versions.records import forget_publishers, read_manifest, write_manifest
from rivet_dagster.catalogs.versions.facts import ADOPTED
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.catalogs.versions.refusals import published_since
from rivet_dagster.errors import NotWritable, RivetError
from rivet_dagster.file_replacement import exchange, sync
from rivet_dagster.model.storage import ExistingTable, Provenance, Record


def existing(table: TableLayout, uri: str) -> ExistingTable | None:
    """Return the folder at the table's path; None if there is none, or a link to a version. Raises RVT-404, OSError."""
    return ParquetFolder.of(table.link).describe(uri) if _is_of_others(table) else None


def adopt(table: TableLayout) -> Manifest | None:
    """Make the folder at the table's path its first version, and return what is published now; None if nothing is.

    Raises RVT-402 if the file system cannot exchange a folder for a link, RVT-404, OSError.
    """
    if not exists(table.link, follow=False):
        return None
    lifecycle.make_durable(table.home)
    with lifecycle.hold_lock(table):
        _remove_unexchanged(table)
        if not _is_of_others(table):
            version = table.published()
            return None if version is None else lifecycle.manifest_of(table, version)
        folder = ParquetFolder.of(table.link)
        version = table.new_version()
        origin = Provenance(record=Record(0))
        manifest = Manifest.now(version, None, ADOPTED, folder.statistics, origin)
        folder.footers.write(folder.files, table.files(version))
        write_manifest(manifest, table.manifest(version))
        os.symlink(table.link_text(version), table.rows_alone(version))
        sync(table.home)
        forget_publishers(table)
        _exchange(table, version)
    return manifest


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
            _exchange(table, version)
        _remove_unexchanged(table)
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


def _exchange(table: TableLayout, version: str) -> None:
    """Exchange what is at the table's path for what is at that of the version, durably."""
    with _translated(table):
        exchange(table.link, table.rows_alone(version))
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


def _remove_unexchanged(table: TableLayout) -> None:
    """Remove versions whose exchange did not happen, or was undone: links where the folder of a version would be."""
    for name in names_in(table.home):
        if is_version_name(name) and is_link(table.home / name):
            for path in (table.manifest(name), table.files(name), table.watermark(name), table.home / name):
                path.unlink(missing_ok=True)
