"""The spare folder of a table: what an expired version has in common with the published one, for the next version.

To link each file that a run does not change, and to remove the link when the version expires, would cost two calls of
the operating system for each file of a table. So a version that expires loses the files that the published version
does not have, and its folder becomes the spare one. The next version that shares files takes it over: a run links and
removes what it changes. A spare folder holds no file that the published version lacks, so that it takes no space.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.file_status import is_folder
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout

WORTH = 16
"""A folder of fewer files is removed: they are quickly linked."""


def keep_spare(table: TableLayout, version: str, published: str) -> None:
    """Make the folder of a version that has been set aside the spare one of the table, if it is worth it.

    One that is there already loses the files that the ``published`` version does not have. Raises OSError.
    """
    current = _inodes(table.data(published))
    _leave(table.spare, current)
    folder = next(filter(is_folder, table.rows_removed(version)), None)
    if folder is not None and not is_folder(table.spare) and _leave(folder, current):
        with suppress(FileNotFoundError, FileExistsError):  # others remove it as well, or have made another
            os.rename(folder, table.spare)


def take_spare(table: TableLayout, version: str, base: Path, names: Collection[str]) -> set[str]:
    """Begin the folder of a version that is being built with the table's spare one, if there is one.

    ``names`` are those of the files that the version shares with ``base``, a folder of another one. Return those of
    them that it has now. Raises OSError.
    """
    folder, taken = table.rows_alone(version), table.taken(version)
    if len(names) < WORTH:
        return set()
    try:
        os.rename(table.spare, taken)  # in one step, so that only one version takes it
    except FileNotFoundError:
        return set()
    written = set(os.listdir(folder))  # a name among these that is shared, too, is left to fail when it is linked
    shared = {name: inode for name, inode in _inodes(base).items() if name in names and name not in written}
    _remove_others(taken, shared)
    for name in written:
        os.rename(folder / name, taken / name)
    os.rmdir(folder)
    os.rename(taken, folder)
    return shared.keys() & set(os.listdir(folder))


def _leave(folder: Path, shared: dict[str, int]) -> bool:
    """Remove a folder's files but those that are ``shared``; if few are left, the folder, too, and return False."""
    if not is_folder(folder):
        return False
    left = _remove_others(folder, shared)
    if left < WORTH:
        shutil.rmtree(folder, ignore_errors=True)
    return left >= WORTH


def _remove_others(folder: Path, shared: dict[str, int]) -> int:
    """Remove all in a folder but the files that are ``shared``, by name and inode; return how many are left."""
    there = _inodes(folder)
    others = [name for name, inode in there.items() if shared.get(name) != inode]
    for name in others:
        try:
            os.unlink(folder / name)
        except IsADirectoryError:  # such as a folder of others that was taken over may have
            shutil.rmtree(folder / name)
        except FileNotFoundError:
            pass  # another run removes it as well
    return len(there) - len(others)


def _inodes(folder: Path) -> dict[str, int]:
    """Return the number of the inode of each file of a folder, all of which one listing tells."""
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}
