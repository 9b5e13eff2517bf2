"""Whether a run could read and publish in a folder, tried out beside its tables."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rivet_dagster.catalogs.filesystem.layout import TableLayout
from rivet_dagster.catalogs.filesystem.place import Place
from rivet_dagster.catalogs.filesystem.presence import exists, is_folder, looking
from rivet_dagster.catalogs.filesystem.sweep import leftovers
from rivet_dagster.catalogs.filesystem.versions import UNSUPPORTED
from rivet_dagster.catalogs.filesystem.writing import writing
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.project.own_folder import keep_out_of_git

_NAMES = 5
"""So many leftovers are called by name."""


def examine(
    subject: str, place: Place, tables: Callable[[], Sequence[TableLayout]], publishes: bool
) -> Iterator[Finding]:
    """What stands in the way of reading at ``place`` and, where a project ``publishes`` there, of switching tables."""
    shown = place.shown(place.remote or place.folder)
    try:
        if place.remote:
            if publishes:
                raise RivetError("RVT-402", f"{shown} has no atomic switch from one version of a table to the next")
            yield in_order(subject, f"{shown}: only an engine can look there")
            return
        _try_to_read(place.folder, shown, publishes)
        with looking(shown):
            shares = not publishes or _try_to_publish(place.folder, shown)
        left, wrong = _leftovers(tables() if publishes else ())
    except RivetError as error:
        yield from broken(subject, error)
        return
    for one in wrong:
        yield from broken(subject, one)
    if not wrong:
        yield in_order(subject, f"{shown}: {'tables can be published' if publishes else 'can be read'}")
    if not shares:
        text = f"{shown} has no hard links: a write that changes a part of a table copies all of it"
        yield doubtful(subject, text, "Put it on a POSIX file system.")
    if left:
        named = ", ".join(left[:_NAMES]) + (", ..." if len(left) > _NAMES else "")
        text = f"{len(left)} leftover{'' if len(left) == 1 else 's'} of dead runs: {named}"
        yield doubtful(subject, text, "`rivet-dagster sweep` removes them, and so does the next write of each table.")


def _leftovers(tables: Iterable[TableLayout]) -> tuple[list[str], list[RivetError]]:
    left: list[str] = []
    wrong: list[RivetError] = []
    for table in tables:
        try:
            with writing(table.home):
                left += [f"{table.name}/{name}" for name in leftovers(table)]
        except RivetError as error:
            wrong.append(error)
    return left, wrong


def _try_to_read(folder: Path, shown: str, publishes: bool) -> None:
    try:
        os.scandir(folder).close()
    except FileNotFoundError as error:
        if not publishes:  # else the first run makes it
            raise RivetError("RVT-403", f"there is no folder {shown}") from error
    except OSError as error:
        raise RivetError("RVT-403", f"{shown} cannot be read: {error.strerror}") from error


def _try_to_publish(folder: Path, shown: str) -> bool:
    """Go through all that a run does to publish; False where only hard links are missing. Raises RVT-402, RVT-404."""
    versions = folder / ".rivet"
    if is_folder(versions) and versions.stat().st_dev != folder.stat().st_dev:
        raise RivetError("RVT-402", f"{versions} and {shown} are not on one file system: no table can be switched")
    there = next(path for path in (folder, *folder.parents) if exists(path))
    with writing(there), TemporaryDirectory(prefix=".rivet-doctor-", dir=there) as name:
        probe = Path(name)
        keep_out_of_git(probe)
        (probe / "file").touch()
        try:
            for _ in range(2):  # the second time in the place of the first
                (probe / "new").symlink_to("file")
                os.replace(probe / "new", probe / "link")
            with open(probe / "lock", "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno in UNSUPPORTED:
                message = f"the file system of {shown} cannot switch tables: {error.strerror}"
                raise RivetError("RVT-402", message) from error
            raise
        try:
            os.link(probe / "file", probe / "shared")
        except OSError as error:
            if error.errno in UNSUPPORTED:
                return False
            raise
    return True
