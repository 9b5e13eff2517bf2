"""What a version takes over from the one before it: files that a write cannot change are shared, not written again."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from rivet_dagster.catalogs.filesystem.footers import parquet_files, read_statistics
from rivet_dagster.catalogs.filesystem.presence import is_folder, names_in
from rivet_dagster.model.storage import Interval, Statistics, Touched


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


def sorted_out(files: list[Path], touched: Touched) -> tuple[list[Path], list[Path], int]:
    """A version's files that a write cannot change, those that it may change in part, and how many rows all hold."""
    untouched, mixed, rows = [], [], 0
    for path in files:
        statistics = read_statistics([path])
        intervals = [_interval(statistics, column) for column in touched.columns]
        rows += statistics.rows
        if not any(_meets(intervals, box) for box in touched.boxes):
            untouched.append(path)
        elif not touched.wholly or not any(_holds(intervals, box) for box in touched.boxes):
            mixed.append(path)
    return untouched, mixed, rows


def _interval(statistics: Statistics, column: str) -> Interval | None:
    known = statistics.values.get(column.lower())
    if known is None or known.nulls is None:
        return None
    if known.least is None:
        return Interval(None, None, nulls=True) if known.nulls == statistics.rows else None
    return Interval(known.least, known.greatest, nulls=known.nulls > 0)


def _meets(intervals: list[Interval | None], box: tuple[Interval | None, ...]) -> bool:
    return all(i is None or b is None or i.meets(b) for i, b in zip(intervals, box, strict=True))


def _holds(intervals: list[Interval | None], box: tuple[Interval | None, ...]) -> bool:
    return all(b is None or (i is not None and b.holds(i)) for i, b in zip(intervals, box, strict=True))
