"""Copy on write: the files of the base that a write cannot change are shared by the new version, not written again."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.data_files import Footers
from rivet_dagster.catalogs.filesystem.files.file_status import is_folder, names_in
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files
from rivet_dagster.catalogs.rewriting.intervals import Affected


def flatten(folder: Path) -> None:
    """Move the files of the subfolders that a split write has made up into the version's folder.

    Readers would take the subfolders for partition columns of the table.
    """
    parts = [path for path in map(folder.joinpath, names_in(folder)) if "=" in path.name and is_folder(path)]
    for number, part in enumerate(parts):
        for path in parquet_files(part):
            # A task uses one file name in all subfolders that it writes to.
            os.rename(path, folder / f"{path.stem}-{number:05}{path.suffix}")
        shutil.rmtree(part)


def share(path: Path, folder: Path) -> None:
    """Put the file into another folder, too: as a hard link if the file system has them, else as a copy."""
    try:
        os.link(path, folder / path.name)
    except FileExistsError:
        raise  # a copy would overwrite the existing file in all versions that share it
    except OSError:
        shutil.copy2(path, folder / path.name)


def keep_permissions(base: Path, folder: Path) -> None:
    """Give a version's folder and files the permissions, and where possible the owner, of those of its base."""
    _like(folder, base)
    example = next(iter(parquet_files(base)), None)
    if example is not None:
        for path in parquet_files(folder):
            _like(path, example)


def _like(path: Path, example: Path) -> None:
    shutil.copymode(example, path)
    status = example.stat()
    with suppress(PermissionError):  # only the superuser can change the owner
        os.chown(path, status.st_uid, status.st_gid)


def pruned(files: list[Path], affected: Affected, footers: Footers) -> tuple[list[Path], list[Path], int]:
    """Return the files that a write cannot change, those that it may change in part, and the row count of all files."""
    unchanged, mixed, rows = [], [], 0
    for path in files:
        statistics = footers.of(path).statistics
        rows += statistics.rows
        if not affected.may_change(statistics):
            unchanged.append(path)
        elif not affected.removes(statistics):
            mixed.append(path)
    return unchanged, mixed, rows
