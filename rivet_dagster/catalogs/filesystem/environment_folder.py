"""The folder of an environment: the file that says what it is and in which state, and tables that begin as the base's.

An environment is laid out like a catalog, below the hidden folder of the catalog itself, where no reader looks::

    <path>/.rivet/.environments/pr-7/.environment.json  profile, time of creation, state
    <path>/.rivet/.environments/pr-7/.used              its modification time is that of the last use
    <path>/.rivet/.environments/pr-7/.lock              held while the state changes
    <path>/.rivet/.environments/pr-7/orders -> .rivet/orders/00000002-9c41d0aa
    <path>/.rivet/.environments/pr-7/.rivet/orders/00000001-5be2f7c3/     the base's version, as hard links
    <path>/.rivet/.environments/pr-7/.rivet/orders/00000002-9c41d0aa/     built here
    <path>/.rivet/.environments/pr-7/.bases/orders/00000001-5be2f7c3 -> ../../.rivet/orders/00000001-5be2f7c3
    <path>/.rivet/.environments/.lock                     held while an environment is made
    <path>/.rivet/.environments/.dropped-pr-6-1d0c52e9/   being removed

The links in ``.bases`` say which versions are those of the base, and keep them from expiring in the environment. A
merged environment keeps its name for a while: nothing but its state is left of it then.

Seeding gives a table of the environment the base's version before it is written there. Until a run in the environment
has published, the table there is nothing but the base's version, and is seeded anew when the base has moved. Each step
leaves the table in a state in which it is not taken for one that was built there: the link that marks a version as the
base's is made before readers in the environment are switched to it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rivet_dagster.catalogs.environments.state import (
    MERGING,
    OPEN,
    PUBLISHED,
    EnvironmentState,
    StateOfEnvironment,
    refuse_wrong_name,
)
from rivet_dagster.catalogs.filesystem.files.file_status import damage, exists, is_folder, names_in, status
from rivet_dagster.catalogs.filesystem.files.footers import data_names
from rivet_dagster.catalogs.filesystem.versions import lifecycle, links
from rivet_dagster.catalogs.filesystem.versions.layout import HOMES, TableLayout, is_table_name
from rivet_dagster.catalogs.filesystem.versions.lifecycle import sync_entry
from rivet_dagster.catalogs.filesystem.versions.records import forget_publishers, write_manifest
from rivet_dagster.file_replacement import replace_file, sync
from rivet_dagster.paths import make_rivet_folder
from rivet_dagster.project.environment_name import NAME

_FOLDERS, _RECORD, _USED, _LOCK, _BASES = ".environments", ".environment.json", ".used", ".lock", ".bases"
_DROPPED, _NEW = ".dropped-", ".new-"
_HALF = re.compile(r"\.(?:dropped|new)-([a-z0-9][a-z0-9_-]*)-[0-9a-f]{8}")


@dataclass(frozen=True)
class FolderState(EnvironmentState):
    """The state in an environment's file; ``token`` tells environments apart that had one name after another."""

    token: str = ""


@dataclass(frozen=True)
class EnvironmentFolder(StateOfEnvironment[FolderState]):
    """The folder of the environment ``name`` of the catalog in the folder ``catalog``."""

    catalog: Path
    name: str

    def __post_init__(self) -> None:
        refuse_wrong_name(self.name)

    @property
    def path(self) -> Path:
        """The folder."""
        return folders_of(self.catalog) / self.name

    def layout(self, table: str) -> TableLayout:
        """Return the layout of a table in the environment."""
        return TableLayout(self.path, table)

    def tables(self) -> list[TableLayout]:
        """Return the layouts of the tables that have versions here. Raises OSError."""
        homes = self.path / HOMES
        return [self.layout(name) for name in names_in(homes) if is_table_name(name) and is_folder(homes / name)]

    def bases(self, table: str) -> Path:
        """Return the folder of the links to the versions of a table that are the base's."""
        return self.path / _BASES / table

    def base_versions(self, table: str) -> list[str]:
        """Return the versions here that are the base's; one, or none if the base had no such table. Raises OSError."""
        return names_in(self.bases(table))

    def is_built(self, table: str) -> bool:
        """Return whether a run in the environment has published the table. Raises RVT-403, RVT-404, OSError."""
        version = self.layout(table).published()
        return version is not None and version not in self.base_versions(table)

    def state(self) -> FolderState | None:
        """Return the state, None if there is no such environment. Raises RVT-407, OSError."""
        file = self.path / _RECORD
        try:
            text = file.read_text("utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None
        with damage(file, "Drop the environment, and make it anew."):
            return FolderState(**{"state": OPEN, **json.loads(text), "used_at": self._used_at()})

    def create(self, profile: str) -> None:
        """Make the environment, in one step; do nothing if it exists. Raises OSError."""
        folders = folders_of(self.catalog)
        make_rivet_folder(folders)
        new = folders / f"{_NEW}{self.name}-{secrets.token_hex(4)}"
        (new / HOMES).mkdir(parents=True)
        try:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            _write(new / _RECORD, FolderState(profile, now, now, OPEN, secrets.token_hex(4)))
            (new / _USED).touch()
            sync(new)
            with _making(self.catalog):
                self.remove_remains()
                os.rename(new, self.path)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            if not exists(self.path / _RECORD):
                raise
        sync_entry(self.path)

    def remove_remains(self) -> bool:
        """Remove what was written here after the environment had been dropped, and return whether there was anything.

        An engine makes the folder anew for a file that it writes late. The caller sees to it that none makes the
        environment meanwhile. Raises OSError.
        """
        return exists(self.path) and not exists(self.path / _RECORD) and self.drop()

    def set(self, state: str, instead_of: str | None = None) -> None:
        """Change the state, durably; the caller holds the lock. Raises OSError."""
        known = self.required(OPEN, MERGING, PUBLISHED)
        if instead_of in (None, known.state):
            _write(self.path / _RECORD, replace(known, state=state))

    def use(self, state: FolderState) -> None:
        """Record that it is used now, by the clock of the file system. Raises OSError."""
        os.utime(self.path / _USED)

    def _used_at(self) -> str:
        last = status(self.path / _USED) or status(self.path / _RECORD)
        used = last.st_mtime if last is not None else 0.0
        return datetime.fromtimestamp(used, UTC).isoformat(timespec="milliseconds")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock without which no process changes the state. Raises OSError."""
        with open(self.path / _LOCK, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def remove_data(self) -> None:
        """Remove everything but the state. Raises OSError."""
        for name in names_in(self.path):
            path = self.path / name
            if name not in (_RECORD, _USED, _LOCK):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)

    def drop(self) -> bool:
        """Remove the folder, from its name in one step; return whether there was one. Raises OSError."""
        try:
            os.rename(self.path, folders_of(self.catalog) / f"{_DROPPED}{self.name}-{secrets.token_hex(4)}")
        except FileNotFoundError:
            existed = False
        else:
            sync(folders_of(self.catalog))
            existed = True
        return bool(remove_halves(self.catalog, self.name)) or existed


def folders_of(catalog: Path) -> Path:
    """Return the folder of all environments of the catalog in the folder ``catalog``."""
    return catalog / HOMES / _FOLDERS


def remove_all_remains(catalog: Path) -> list[str]:
    """Remove what was written to dropped environments afterwards, and return their names. Raises OSError."""
    folders = folders_of(catalog)
    names = [name for name in names_in(folders) if NAME.fullmatch(name)]
    if all(exists(folders / name / _RECORD) for name in names):
        return []
    with _making(catalog):
        return [name for name in names if EnvironmentFolder(catalog, name).remove_remains()]


@contextmanager
def _making(catalog: Path) -> Iterator[None]:
    """Hold the lock without which no process makes an environment. Raises OSError."""
    with open(folders_of(catalog) / _LOCK, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def all_folders(catalog: Path) -> list[EnvironmentFolder]:
    """Return the environments of a catalog, merged ones too, in order of their names. Raises OSError."""
    names = names_in(folders_of(catalog))
    folders = [EnvironmentFolder(catalog, name) for name in names if NAME.fullmatch(name)]
    return [folder for folder in folders if exists(folder.path / _RECORD)]


def remove_halves(catalog: Path, name: str | None = None, made_before: float | None = None) -> list[str]:
    """Remove what interrupted drops of ``name``, or of all environments, left, and return the names.

    With ``made_before``, also what is left of environments whose creation was interrupted before that time. Raises
    OSError.
    """
    folders, removed = folders_of(catalog), []
    for entry in names_in(folders):
        match = _HALF.fullmatch(entry)
        if match is None or name not in (None, match[1]):
            continue
        if entry.startswith(_NEW):
            last = status(folders / entry)
            if made_before is None or last is None or last.st_mtime > made_before:
                continue
        with suppress(FileNotFoundError):  # another process removes it, too
            shutil.rmtree(folders / entry)
        removed.append(match[1])
    return removed


def _write(path: Path, state: FolderState) -> None:
    stored = {name: value for name, value in asdict(state).items() if name != "used_at"}
    replace_file(path, json.dumps(stored).encode(), path.with_name(f"{path.name}-{secrets.token_hex(4)}"))


def seed(base: TableLayout, environment: EnvironmentFolder) -> None:
    """Have the environment's table be the base's published version, unless it was built there.

    Raises RVT-403, RVT-404, RVT-407, OSError.
    """
    layout = environment.layout(base.name)
    lifecycle.make_durable(layout.home)
    with lifecycle.hold_lock(layout):
        while not environment.is_built(base.name):
            version = _published(base)
            if version is not None and version != layout.published():
                try:
                    _take(base, version, environment)
                except FileNotFoundError:
                    if _published(base) == version:
                        raise
                    continue  # it has expired meanwhile
            elif version is None and layout.published() is not None:
                layout.unpublish()
                links.remove_links(layout)
            _forget_others(environment, layout, version)
            return


def forget(environment: EnvironmentFolder, table: str) -> None:
    """Remove the base's versions of a table that readers in the environment do not see any more. Raises OSError."""
    layout = environment.layout(table)
    with lifecycle.hold_lock(layout):
        if layout.published() is None:
            _forget_others(environment, layout, None)


def _published(base: TableLayout) -> str | None:
    """Return the version that readers of the base see; None also if a person removed its files."""
    version = base.published()
    return version if version is not None and data_names(base.data(version)) else None


def _take(base: TableLayout, version: str, environment: EnvironmentFolder) -> None:
    layout, bases = environment.layout(base.name), environment.bases(base.name)
    lifecycle.remove(layout, version)  # what a killed process left of it
    layout.rows_alone(version).mkdir()
    lifecycle.copy(base, version, version, layout)
    links.move_rows(layout, version)
    keep_permissions(base, version, layout, version)
    for path, copied in (
        (base.files(version), layout.files(version)),
        (base.watermark(version), layout.watermark(version)),
    ):
        with suppress(FileNotFoundError):
            shutil.copyfile(path, copied)
    manifest = lifecycle.manifest_of(base, version) or lifecycle.manifest_of(layout, version)
    assert manifest is not None  # `copy` raises if there is no file
    lifecycle.sync_data(layout, version)
    bases.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.symlink(f"../../{HOMES}/{base.name}/{version}", bases / version)
    # After the link: a version with a manifest and without one counts as published by a run.
    write_manifest(replace(manifest, base=None), layout.manifest(version))
    for folder in (bases, bases.parent, layout.home):
        sync(folder)
    links.make_link(layout, version)
    lifecycle.switch(layout, version)
    links.remove_stale_links(layout, layout.versions())


def _forget_others(environment: EnvironmentFolder, layout: TableLayout, version: str | None) -> None:
    """Remove the versions of the base that it has replaced since."""
    for other in environment.base_versions(layout.name):
        if other != version:
            (environment.bases(layout.name) / other).unlink(missing_ok=True)
            lifecycle.remove(layout, other)
    forget_publishers(layout)


def keep_permissions(table: TableLayout, version: str, other: TableLayout, to: str) -> None:
    """Give the folders of a copied version the permissions of the original's. Raises OSError."""
    shutil.copymode(table.data(version), other.data(to))
    errors, copied = links.errors_folder(table, version), links.errors_folder(other, to)
    if errors is not None and copied is not None:  # errors quote rows
        shutil.copymode(errors, copied)
