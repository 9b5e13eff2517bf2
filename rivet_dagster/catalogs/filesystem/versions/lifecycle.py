"""The steps of publishing a version; an interrupt in any of them leaves the table consistent."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.data_files import Footers, share
from rivet_dagster.catalogs.filesystem.files.file_status import (
    exists,
    is_folder,
    is_link,
    names_in,
    translate_read_errors,
)
from rivet_dagster.catalogs.filesystem.files.footers import data_names, is_data, parquet_files, read_statistics
from rivet_dagster.catalogs.filesystem.versions.layout import (
    ALIVE,
    MANIFEST,
    MARKED,
    TableLayout,
    versions_with,
)
from rivet_dagster.catalogs.filesystem.versions.links import errors_folder, find_unlinked, make_errors_folder
from rivet_dagster.catalogs.filesystem.versions.records import (
    FileHeartbeat,
    read_manifest,
    read_publishers,
    remember_publishers,
)
from rivet_dagster.catalogs.versions.facts import is_by
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.errors import NotWritable, RivetError
from rivet_dagster.file_replacement import sync
from rivet_dagster.paths import make_rivet_folder

UNSUPPORTED = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Error numbers of a file system that does not support an operation at all."""


def begin(table: TableLayout) -> str:
    """Make the folder of a new version and return the version's name. Raises RVT-402, OSError."""
    make_durable(table.home)
    version = table.new_version()
    try:
        FileHeartbeat(table, version).begin()
        table.data(version).mkdir()
        if table.has_link:
            _try_a_link(table, version)
    except BaseException:
        remove(table, version)
        raise
    return version


def make_durable(folder: Path) -> None:
    """Make a folder and its parents, and make their directory entries durable."""
    missing = list(takewhile(lambda path: not exists(path), (folder, *folder.parents)))
    make_rivet_folder(folder)
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
def hold_lock(table: TableLayout) -> Iterator[None]:
    """Hold the lock without which no process publishes a version of ``table`` or sweeps it. Raises OSError."""
    with open(table.lock, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def beat(table: TableLayout, version: str) -> None:
    """Send a heartbeat of a version that is being built. Raises RVT-406, OSError."""
    heartbeat = FileHeartbeat(table, version)
    with heartbeat.required():
        since = heartbeat.now()
        with hold_lock(table):
            heartbeat.beat(since)


def manifest_of(table: TableLayout, version: str) -> Manifest | None:
    """Return the manifest of a published version, rebuilt from the data if it is lost; None if both are lost."""
    while names := data_names(folder := table.data(version)):
        manifest = read_manifest(table.manifest(version))
        if manifest is not None:
            return manifest
        files = [folder / name for name in names]
        try:
            return Manifest.now(version, None, "", read_statistics(files))
        except RivetError:
            if all(map(exists, files)):
                raise
            # The version is being removed: its manifest goes first.
    return None


def folder(table: TableLayout, version: str) -> Path:
    """Return the folder of a published version's files. Raises RVT-401 if it does not exist any more."""
    path = table.data(version)
    with translate_read_errors(path):
        if not is_folder(path):
            raise RivetError("RVT-401", f"the version {version} of '{table.name}' has been removed")
    return path


def current(table: TableLayout) -> Manifest | None:
    """Return the manifest of the version that readers see, None without one. Raises RVT-403, RVT-404."""
    while True:
        version = table.published()
        with translate_read_errors(table.link):
            manifest = manifest_of(table, version) if version else None
        # Another version may have been published, and this one removed in part or whole, since its name was read.
        if version == table.published() or (manifest is not None and exists(table.manifest(manifest.version))):
            return manifest


def switch(table: TableLayout, version: str) -> None:
    """Switch readers to ``version`` in one atomic step, durably."""
    table.switch(version)
    sync(table.folder)


def history(table: TableLayout) -> list[str]:
    """Return the published versions whose manifests still exist, the newest first. Raises RVT-407 for a damaged one."""
    return [version for version, _ in _chain(table)]


def _chain(table: TableLayout) -> Iterator[tuple[str, Manifest | None]]:
    """Yield the published versions and their manifests, the newest first; the last one may have none any more."""
    seen = set[str]()
    version = table.published()
    while version is not None and version not in seen:
        seen.add(version)
        manifest = read_manifest(table.manifest(version))
        yield version, manifest
        version = manifest.base if manifest else None


def find_published(table: TableLayout, versions: Collection[str]) -> set[str]:
    """Return which of ``versions`` are published; no manifests are read but those up to the last of them.

    Raises RVT-407 for a damaged one.
    """
    published = set[str]()
    chain = _chain(table) if versions else iter(())
    while len(published) < len(versions) and (following := next(chain, None)) is not None:
        published |= {following[0]} & set(versions)
    return published


def list_marked(table: TableLayout) -> list[str]:
    """Return the versions with a mark, those that are withheld and those that are staged, that are not published."""
    names = names_in(table.home)
    marked = versions_with(names, MARKED)
    return sorted(marked - find_published(table, marked & versions_with(names, MANIFEST)))


def may_be_read(table: TableLayout, version: str) -> bool:
    """Return whether a version of this process is or may be published, or a person's link leads to it."""
    try:
        has_manifest = exists(table.manifest(version))
        if table.published() == version or (has_manifest and find_published(table, [version])):
            return True
    except RivetError as error:
        # Another file at the table's path means that it is not published; other errors leave that open.
        if not isinstance(error, NotWritable):
            return True
    return exists(table.manifest(version)) and not find_unlinked(table, [version])


def copy(table: TableLayout, version: str, to: str, other: TableLayout | None = None) -> None:
    """Share the files of one version, and of its error table, with another, of the same table or of the ``other``.

    Raises FileNotFoundError if ``version`` has been removed.
    """
    target = other or table
    files = parquet_files(table.data(version))
    if not files:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(table.data(version)))
    data = target.data(to)
    for path in files:
        share(path, data / path.name)
    errors = errors_folder(table, version)
    if errors is not None:
        folder = make_errors_folder(target, to, errors.name)
        for path in parquet_files(errors):
            share(path, folder / path.name)


def tidy(folder: Path, footers: Footers) -> list[Path]:
    """Remove whatever is not a data file, since some readers refuse a folder with other files, and empty data files.

    If all data files are empty, one of them stays. Return the remaining data files.
    """
    files = []
    for name in names_in(folder):
        path = folder / name
        if is_data(name):
            files.append(path)
        else:
            shutil.rmtree(path) if is_folder(path) else path.unlink(missing_ok=True)
    empty = [path for path in files if footers.of(path).statistics.rows == 0]
    removed = set(empty if len(empty) < len(files) else empty[1:])
    for path in removed:
        path.unlink()
    return [path for path in files if path not in removed]


def published_by(table: TableLayout, identity: str) -> Manifest | None:
    """Return the manifest of the version that ``identity`` published, even if it has expired; None if none is known.

    Manifests without that text are not parsed: a damaged one of an old version does not stop the runs that follow.
    """
    version = table.published()
    if version is None:
        return None
    written, recorded = json.dumps(identity).encode(), read_publishers(table)
    unrecorded = versions_with(names_in(table.home), MANIFEST).difference(recorded.versions)
    if any(written in content for content in _contents(table, unrecorded)):
        for _, manifest in _chain(table):
            if manifest is not None and is_by(manifest, identity):
                return replace(manifest, identity=identity)
    published = recorded.find(identity)
    if published is None:
        return None
    manifest = read_manifest(table.manifest(published.version))
    if manifest is not None:
        return replace(manifest, identity=identity)
    newest = read_manifest(table.manifest(version))
    return replace(published, columns=newest.columns) if newest is not None else None


def _contents(table: TableLayout, versions: Iterable[str]) -> Iterator[bytes]:
    for version in versions:
        with suppress(FileNotFoundError):
            yield table.manifest(version).read_bytes()


def expire(table: TableLayout, keep: int) -> list[str]:
    """Expire all published versions but the newest ``keep``, and return those that ``delete`` is to remove.

    These are set aside; those to which a link leads stay, marked. The record of their publishers is kept.
    """
    names = names_in(table.home)
    # Such as a withheld version whose publication was killed after it had written the manifest.
    unsettled = versions_with(names, ALIVE, MARKED)
    replaced = versions_with(names, MANIFEST) - unsettled - {table.published()}
    recorded = read_publishers(table).versions
    if unrecorded := replaced.difference(recorded):
        recorded = (*recorded, *_record(table, unrecorded))
    retained = [version for version in recorded if version in replaced]
    unknown = sorted(replaced.difference(recorded))  # a person has brought an older version back since
    expired = [*unknown, *retained[: max(len(retained) + 1 - keep, 0)]]
    # The oldest first: an interrupt must not break the chain of manifests to versions that are still to be removed.
    unlinked = find_unlinked(table, expired)
    for version in unlinked:
        set_aside(table, version)
    for version in expired:
        if version not in unlinked:
            table.expired(version).touch()
    return unlinked


def _record(table: TableLayout, versions: set[str]) -> list[str]:
    """Record the publishers of those of the ``versions`` that have been published, and return these, the oldest first.

    It is one, that which was replaced last, unless the others are of an earlier release.
    """
    left, manifests = set(versions), list[Manifest]()
    for version, manifest in _chain(table):
        if version in left and manifest is not None:
            left.remove(version)
            manifests.insert(0, manifest)
        if not left:
            break
    remember_publishers(table, manifests)
    return [manifest.version for manifest in manifests]


def set_aside(table: TableLayout, version: str) -> None:
    """Remove the mark of a version that is to be removed, so that nobody revives it, and rename its folders.

    A reader that lists the files at this moment must find all of them or none.
    """
    table.withheld(version).unlink(missing_ok=True)  # first: a mark without data would never be removed
    for folder, removed in zip(table.folders(version), table.removed(version), strict=True):
        with suppress(OSError):
            os.rename(folder, removed)


def delete(table: TableLayout, versions: Sequence[str]) -> None:
    """Remove versions that have been set aside: their files without the lock, since that takes long. Raises OSError.

    A version that has come back by then, as one of the base that an environment takes over, is left alone.
    """
    for version in versions:
        for path in (*table.removed(version), table.taken(version)):
            _remove_path(path)
    if versions:
        with hold_lock(table):
            for version in versions:
                if is_removed(table, version):
                    _remove_beside(table, version)


def remove(table: TableLayout, version: str) -> None:
    """Remove a version's folder and all files beside it, as far as they exist."""
    # Canceled tasks of the engine may continue to write for a moment.
    for _ in range(10):
        set_aside(table, version)
        for path in (*table.removed(version), *table.folders(version), table.taken(version)):
            _remove_path(path)
        if is_removed(table, version):
            _remove_beside(table, version)
            return
        time.sleep(0.1)


def _remove_path(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if is_link(path) or not is_folder(path):
        path.unlink(missing_ok=True)


def _remove_beside(table: TableLayout, version: str) -> None:
    table.forget(version)
    beside = (table.manifest, table.files, table.watermark, table.expired)
    for path in [file(version) for file in beside]:
        path.unlink(missing_ok=True)
    _remove_path(table.adopted(version))  # last, since the others are not found without it
    FileHeartbeat(table, version).end()


def is_removed(table: TableLayout, version: str) -> bool:
    """Return whether no file of the version's tables is left. Raises OSError."""
    return not any(map(exists, (*table.removed(version), *table.folders(version), table.taken(version))))


def sync_data(table: TableLayout, version: str, files: Iterable[Path] | None = None) -> None:
    """Make a version's files, and those of its error table, durable, so that they survive a loss of power.

    ``files`` are those that are not durable yet, as files of other versions are; None stands for all of the rows.
    """
    folder, errors = table.data(version), errors_folder(table, version)
    for path in (*(parquet_files(folder) if files is None else files), folder):
        sync(path)
    if errors is not None:
        for path in (*parquet_files(errors), errors, errors.parent, table.with_errors(version)):
            sync(path)


def sync_entry(path: Path) -> None:
    """Make the directory entry of a path durable, if this user may read its parent folder."""
    with suppress(PermissionError):
        sync(path.parent)
