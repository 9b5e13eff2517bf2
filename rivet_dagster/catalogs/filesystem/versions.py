"""The steps of publishing a version: each leaves the table whole, wherever it is interrupted."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from rivet_dagster.catalogs.filesystem import heartbeat, publishers
from rivet_dagster.catalogs.filesystem.copy_on_write import share
from rivet_dagster.catalogs.filesystem.data_files import Footers
from rivet_dagster.catalogs.filesystem.footers import is_data, parquet_files, read_statistics
from rivet_dagster.catalogs.filesystem.layout import TableLayout
from rivet_dagster.catalogs.filesystem.links import unlinked
from rivet_dagster.catalogs.filesystem.manifest import Manifest, read_manifest
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder, looking
from rivet_dagster.errors import RivetError
from rivet_dagster.project.own_folder import make_own_folder

UNSUPPORTED = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What a file system answers that cannot do a thing at all."""


def begin(table: TableLayout) -> str:
    """Make the folder of a new version and give the version's name. Raises RVT-402, OSError."""
    _make_durable(table.home)
    version = table.new_version()
    try:
        heartbeat.begin(table, version)
        table.data(version).mkdir()
        _try_a_link(table, version)
    except BaseException:
        remove(table, version)
        raise
    return version


def _make_durable(folder: Path) -> None:
    """Make a folder, and those above it, and have their entries survive a loss of power."""
    missing = list(takewhile(lambda path: not exists(path), (folder, *folder.parents)))
    make_own_folder(folder)
    for path in missing:
        sync_entry(path)


def _try_a_link(table: TableLayout, version: str) -> None:
    probe = table.home / f".link-{secrets.token_hex(4)}"
    try:
        probe.symlink_to(version)
        probe.unlink(missing_ok=True)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            raise RivetError("RVT-402", f"the file system of {table.folder} has no symbolic links") from error
        raise


@contextmanager
def locked(table: TableLayout) -> Iterator[None]:
    """Keep every other process from changing what is published of ``table``, and from sweeping. Raises OSError."""
    with open(table.lock, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def beat(table: TableLayout, version: str) -> None:
    """One more sign of life of a version that is being built. Raises RVT-406, OSError."""
    with heartbeat.required(table, version):
        since = heartbeat.now(table)
        with locked(table):
            heartbeat.beat(table, version, since)


def manifest_of(table: TableLayout, version: str) -> Manifest | None:
    """The manifest of a published version, read off the data where it has been lost; None where both are gone."""
    files = parquet_files(table.data(version))
    if not files:
        return None
    return read_manifest(table.manifest(version)) or Manifest.now(version, None, "", read_statistics(files))


def folder(table: TableLayout, version: str) -> Path:
    """The folder of a published version's files. Raises RVT-401 where it is gone."""
    found = table.data(version)
    with looking(found):
        if not is_folder(found):
            raise RivetError("RVT-401", f"the version {version} of '{table.name}' has been removed")
    return found


def current(table: TableLayout) -> Manifest | None:
    """The manifest of the version that readers see, None where there is none. Raises RVT-403, RVT-404."""
    while True:
        version = table.published()
        with looking(table.link):
            manifest = manifest_of(table, version) if version else None
        # It may have been replaced and removed since its name was read.
        if manifest is not None or version == table.published():
            return manifest


def switch(table: TableLayout, version: str) -> None:
    """Let readers see ``version``: the one instant at which they do."""
    link = table.home / f".link-{secrets.token_hex(4)}"
    os.symlink(table.link_text(version), link)
    try:
        os.replace(link, table.link)
    except BaseException:
        link.unlink(missing_ok=True)
        raise
    sync(table.folder)


def history(table: TableLayout) -> list[str]:
    """The published versions whose manifests are still there, the newest first."""
    versions = []
    version = table.published()
    while version is not None and version not in versions:
        versions.append(version)
        manifest = read_manifest(table.manifest(version))
        version = manifest.base if manifest else None
    return versions


def may_be_read(table: TableLayout, version: str) -> bool:
    """Whether a version is, or may be, published, or a person's link leads to it."""
    try:
        if version in history(table):
            return True
    except RivetError as error:
        # Something of somebody else's in the table's place is an answer; storage that does not give one is none.
        if error.code != "RVT-404":
            return True
    return exists(table.manifest(version)) and not unlinked(table, [version])


def copy(table: TableLayout, version: str, to: str) -> None:
    """Give one version the files of another. Raises FileNotFoundError where that has been removed."""
    files = parquet_files(table.data(version))
    if not files:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(table.data(version)))
    for path in files:
        share(path, table.data(to))


def tidy(table: TableLayout, version: str, footers: Footers) -> list[Path]:
    """Remove what the engine left beside the data files: some readers refuse a folder with anything else in it.

    Of files without rows one stays where there are no others. Return those that are there then.
    """
    for path in table.data(version).iterdir():
        if not is_data(path):
            shutil.rmtree(path) if is_folder(path) else path.unlink(missing_ok=True)
    files = parquet_files(table.data(version))
    empty = [path for path in files if footers.of(path).statistics.rows == 0]
    removed = empty if len(empty) < len(files) else empty[1:]
    for path in removed:
        path.unlink()
    return [path for path in files if path not in removed]


def published_by(table: TableLayout, identity: str) -> Manifest | None:
    """The manifest of the version that ``identity`` published, which may have expired since, but not long ago."""
    kept = [manifest for version in history(table) if (manifest := read_manifest(table.manifest(version)))]
    found = next((manifest for manifest in kept if identity in manifest.publishers), None)
    if found is not None:
        return replace(found, identity=identity)
    found = publishers.find(table, identity) if kept else None
    return replace(found, columns=kept[0].columns) if found is not None else None


def expire(table: TableLayout, keep: int) -> None:
    """Remove the published versions that are older than the newest ``keep``; who published them stays known."""
    leaving = history(table)[keep:]
    publishers.remember(table, filter(None, (read_manifest(table.manifest(version)) for version in leaving)))
    if leaving:
        sync(table.home)  # before the versions go, by which it was known until now
    # The oldest first: an interruption must not cut the chain that leads to what is still to be removed.
    for version in reversed(unlinked(table, leaving)):
        with suppress(OSError):  # what stays is taken up by the next publish
            remove(table, version)


def remove(table: TableLayout, version: str) -> None:
    """Remove a version's folder and all files beside it, as far as they are there."""
    data, removed = table.data(version), table.removed(version)
    table.withheld(version).unlink(missing_ok=True)  # first: what is marked and has lost its data could never go
    # Canceled tasks of the engine may go on writing for a moment.
    for _ in range(10):
        # Who lists the files at this moment must find all of them or none.
        with suppress(OSError):
            os.rename(data, removed)
        for folder in (removed, data):
            shutil.rmtree(folder, ignore_errors=True)
            if not is_folder(folder):
                folder.unlink(missing_ok=True)
        if not exists(removed) and not exists(data):
            table.manifest(version).unlink(missing_ok=True)
            table.files(version).unlink(missing_ok=True)
            table.watermark(version).unlink(missing_ok=True)
            heartbeat.end(table, version)
            return
        time.sleep(0.1)


def sync_data(table: TableLayout, version: str) -> None:
    """Have a version's files survive a loss of power."""
    folder = table.data(version)
    for path in (*parquet_files(folder), folder):
        sync(path)


def sync_entry(path: Path) -> None:
    """Have the name of a file or folder survive a loss of power, where this user may look into its folder."""
    with suppress(PermissionError):
        sync(path.parent)


def sync(path: Path) -> None:
    """Have what was written to a file or folder survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
