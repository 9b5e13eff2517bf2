"""Copy on write: the files of the base that a write cannot change are shared by the new version, not written again."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from rivet_dagster.catalogs.filesystem.data_files import Footers
from rivet_dagster.catalogs.filesystem.footers import parquet_files
from rivet_dagster.catalogs.filesystem.presence import is_folder, names_in
from rivet_dagster.catalogs.rewriting.intervals import Affected


def flatten(folder: Path) -> None:
    """Move the files of subfolders, one for each part of a write that was split, up into the version's folder.

    Readers would take the subfolders for columns of the table.
    """
    parts = [path for path in map(folder.joinpath, names_in(folder)) if "=" in path.name and is_folder(path)]
    for number, part in enumerate(parts):
        for path in parquet_files(part):
            # One task gives all parts that it writes the same file name.
            os.rename(path, folder / f"{path.stem}-{number:05}{path.suffix}")
        shutil.rmtree(part)


def share(path: Path, folder: Path) -> None:
    """Have the file in another folder too; the two share their bytes where the file system can."""
    try:
        os.link(path, folder / path.name)
    except FileExistsError:
        raise  # a copy would change the file that is there, in all versions that share it
    except OSError:
        shutil.copy2(path, folder / path.name)


def keep_permissions(base: Path, folder: Path) -> None:
    """Give a version's folder, and the files written to it, the permissions that those of its base have."""
    _like(folder, base)
    example = next(iter(parquet_files(base)), None)
    if example is not None:
        for path in parquet_files(folder):
            _like(path, example)


def _like(path: Path, example: Path) -> None:
    shutil.copymode(example, path)
    status = example.stat()
    with suppress(PermissionError):  # only the superuser can give a file to somebody else
        os.chown(path, status.st_uid, status.st_gid)


def pruned(files: list[Path], affected: Affected, footers: Footers) -> tuple[list[Path], list[Path], int]:
    """Return the files that a write cannot change, those that it may change in part, and how many rows all hold."""
    unchanged, mixed, rows = [], [], 0
    for path in files:
        statistics = footers.of(path).statistics
        rows += statistics.rows
        if not affected.may_change(statistics):
            unchanged.append(path)
        elif not affected.removes(statistics):
            mixed.append(path)
    return unchanged, mixed, rows
