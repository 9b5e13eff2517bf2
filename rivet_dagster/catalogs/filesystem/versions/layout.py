"""The layout of a published table on disk.

``<path>/orders`` is a relative link to the folder of one of its versions; beside each folder is a manifest::

    <path>/orders -> .rivet/orders/00000002-9c41d0aa
    <path>/.rivet/orders/00000001-5be2f7c3/      flat Parquet files
    <path>/.rivet/orders/00000001-5be2f7c3.json
    <path>/.rivet/orders/00000002-9c41d0aa/
    <path>/.rivet/orders/00000002-9c41d0aa.json
    <path>/.rivet/orders/00000002-9c41d0aa.files.json  rows and bounds of each file
    <path>/.rivet/orders/00000002-9c41d0aa.watermark  set by hand for the run that follows
    <path>/.rivet/orders/00000003-07fe3b1d/      being built
    <path>/.rivet/orders/00000003-07fe3b1d.alive
    <path>/.rivet/orders/00000004-e0a95c2f/      withheld
    <path>/.rivet/orders/00000004-e0a95c2f.kept  also beside a version that a run has staged
    <path>/.rivet/orders/00000001-1d0c52e9.removed/  being removed
    <path>/.rivet/orders/00000001-84a1be06.expired  beside a version that stays, since a person's link leads to it
    <path>/.rivet/orders/spare/  links to files of the published version, for the next one
    <path>/.rivet/orders/00000003-07fe3b1d.taken/  the spare folder, being made that of this version
    <path>/.rivet/orders/publishers.jsonl  of versions that others have replaced
    <path>/.rivet/orders/lock

A version that is published with an error table (see ``error_tables``) has its files one folder deeper::

    <path>/orders -> .rivet/orders/00000005-77b0e3d4.with_errors/rows
    <path>/orders__errors -> orders/../errors/orders__errors
    <path>/.rivet/orders/00000005-77b0e3d4.with_errors/rows/
    <path>/.rivet/orders/00000005-77b0e3d4.with_errors/errors/orders__errors/
    <path>/.rivet/orders/00000006-1c9f2ab8/      being built, with an error table already
    <path>/.rivet/orders/00000006-1c9f2ab8.with_errors/errors/orders__errors/

The published versions are those that are found by following the link, and then the ``base`` of each manifest. Any other
folder was never published; without a heartbeat file beside it, it belongs to a dead run, unless a mark says that it is
withheld, or a link that a person made leads to it. One that a run has staged has both files.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rivet_dagster.catalogs.filesystem.files.file_status import MISSING, is_folder, names_in, translate_read_errors
from rivet_dagster.catalogs.versions.refusals import ADOPT
from rivet_dagster.errors import RivetError
from rivet_dagster.model.convert import show

if TYPE_CHECKING:
    from rivet_dagster.engines.contract import EngineSession, Frame

HOMES = ".rivet"
"""The folder of a catalog that contains the tables' versions."""

_NAME = re.compile(r"\w[\w.-]*")
_VERSION = re.compile(r"\d{8,}-[0-9a-f]{8}")
_WITH_ERRORS, _ROWS = ".with_errors", "rows"
MANIFEST = ".json"
"""The end of the name of a version's manifest."""
UNPUBLISHED = ALIVE, MARKED, EXPIRED, _REMOVED, _TAKEN = ".alive", ".kept", ".expired", ".removed", ".taken"
"""The ends of the names of what lies beside a version that is not published yet, or not any more."""
ADOPTED_FROM = ".adopted"
"""The end of the name of the folder from which a version was taken over, or of a file that tells where that is."""
_SUFFIXES = (MANIFEST, *UNPUBLISHED, ".watermark", _WITH_ERRORS)


def is_table_name(name: str) -> bool:
    """Return whether a name is valid for a table.

    >>> is_table_name("marts.orders-2024"), is_table_name(".DS_Store"), is_table_name("a/b")
    (True, False, False)
    """
    return _NAME.fullmatch(name) is not None


def is_version_name(name: str) -> bool:
    """Return whether a name is that of a version.

    >>> is_version_name("00000001-5be2f7c3"), is_version_name("day=1")
    (True, False)
    """
    return _VERSION.fullmatch(name) is not None


def versions_in(names: Iterable[str]) -> set[str]:
    """Return the versions to which files and folders of these names belong.

    >>> sorted(versions_in(["00000001-5be2f7c3.json", "00000002-9c41d0aa", "00000002-9c41d0aa.alive", "lock"]))
    ['00000001-5be2f7c3', '00000002-9c41d0aa']
    """
    bare = (name.partition(".")[0] if name.endswith(_SUFFIXES) else name for name in names)
    return {name for name in bare if _VERSION.fullmatch(name)}


def versions_with(names: Iterable[str], *ends: str) -> set[str]:
    """Return the versions beside which lies a file or folder with one of these ends, such as ``MANIFEST``.

    >>> names = ["00000001-5be2f7c3.files.json", "00000002-9c41d0aa", "00000002-9c41d0aa.json", "lock"]
    >>> versions_with(names, MANIFEST)
    {'00000002-9c41d0aa'}
    """
    bare = (name.removesuffix(end).removesuffix(_WITH_ERRORS) for name in names for end in ends if name.endswith(end))
    return {name for name in bare if _VERSION.fullmatch(name)}


@dataclass(frozen=True)
class TableLayout:
    """The paths of one table in a catalog's folder."""

    has_link: ClassVar[bool] = True
    """Whether readers open a link, which the file system must be able to replace."""

    folder: Path
    name: str
    others: tuple[Path, ...] | None = field(default=None, compare=False, repr=False, kw_only=True)
    """The ``list_others`` of the folder, if they have been listed for several publications."""

    def __post_init__(self) -> None:
        if not is_table_name(self.name):
            raise RivetError(
                "RVT-404",
                f"no table can be called {show(self.name)}",
                remediation="A table of a filesystem catalog has a plain name: letters, digits, '_', '-' and '.', "
                "beginning with a letter, a digit or '_'.",
            )

    @property
    def link(self) -> Path:
        """The link that readers open."""
        return self.folder / self.name

    @cached_property
    def home(self) -> Path:
        """The folder that contains the versions."""
        return self.folder / HOMES / self.name

    @property
    def lock(self) -> Path:
        """The file that is locked by a process that changes what is published."""
        return self.home / "lock"

    @property
    def publishers(self) -> Path:
        """The file that records which runs published the versions that have expired."""
        return self.home / "publishers.jsonl"

    @property
    def spare(self) -> Path:
        """The folder of files that the published version has, too, with which the next one may begin."""
        return self.home / "spare"

    def data(self, version: str) -> Path:
        """Return the folder of a version's files, which is moved when an error table is published. Raises RVT-403."""
        rows = self.rows_with_errors(version)
        with translate_read_errors(rows):
            return rows if is_folder(rows) else self.rows_alone(version)

    def rows_alone(self, version: str) -> Path:
        """Return the folder of the files of a version that is being built, or that has no error table."""
        return self._of(version)

    def with_errors(self, version: str) -> Path:
        """Return the folder that contains the error table of a version, and once it is published the rows, too."""
        return self._of(version, _WITH_ERRORS)

    def rows_with_errors(self, version: str) -> Path:
        """Return the folder of the files of a version that is published with an error table."""
        return self.with_errors(version) / _ROWS

    def manifest(self, version: str) -> Path:
        """Return the manifest of a version."""
        return self._of(version, MANIFEST)

    def alive(self, version: str) -> Path:
        """Return the heartbeat file of a version that is being built."""
        return self._of(version, ALIVE)

    def files(self, version: str) -> Path:
        """Return the file that caches the footers of a version's files."""
        return self._of(version, ".files.json")

    def withheld(self, version: str) -> Path:
        """Return the file that marks a version as withheld."""
        return self._of(version, MARKED)

    def watermark(self, version: str) -> Path:
        """Return the file with the value that a person set in place of the watermark of a version."""
        return self._of(version, ".watermark")

    def expired(self, version: str) -> Path:
        """Return the file that marks a version as expired, which stays as long as a person's link leads to it."""
        return self._of(version, EXPIRED)

    def adopted(self, version: str) -> Path:
        """Return the folder from which this version was taken over, or a file with the location of that."""
        return self._of(version, ADOPTED_FROM)

    def folders(self, version: str) -> tuple[Path, Path]:
        """Return the folders in which the files of a version may be, of which both exist while it is being built."""
        return self.with_errors(version), self.rows_alone(version)

    def removed(self, version: str) -> tuple[Path, Path]:
        """Return the paths that the ``folders`` are renamed to while their files are removed one by one."""
        return self._of(version, f"{_WITH_ERRORS}{_REMOVED}"), self._of(version, _REMOVED)

    def rows_removed(self, version: str) -> tuple[Path, Path]:
        """Return the paths at which the files of its rows are then, of which one exists."""
        with_errors, alone = self.removed(version)
        return with_errors / _ROWS, alone

    def taken(self, version: str) -> Path:
        """Return the path of the spare folder while it is made that of this version."""
        return self._of(version, _TAKEN)

    def _of(self, version: str, suffix: str = "") -> Path:
        # A person may have typed it, and a path could lead to another table.
        if not _VERSION.fullmatch(version):
            raise RivetError("RVT-408", f"'{self.name}' has no version {show(version)}")
        return self.home / f"{version}{suffix}"

    def versions(self) -> set[str]:
        """Return all versions of which any file or folder exists."""
        return versions_in(names_in(self.home))

    def link_text(self, version: str) -> str:
        """Return the target of the link: relative, so that the catalog's folder can be moved or mounted elsewhere."""
        return f"{HOMES}/{self.name}/{self.data(version).relative_to(self.home)}"

    def published(self) -> str | None:
        """Return the version that readers see, None if there is no link.

        Raises RVT-404 if there is something else at its path, RVT-403 if that cannot be looked up.
        """
        with translate_read_errors(self.link):
            try:
                text = os.readlink(self.link)
            except OSError as error:
                if error.errno in MISSING:
                    return None
                if error.errno != errno.EINVAL:  # it is not a link
                    raise
                text = ""
            below = text.removeprefix(f"{HOMES}/{self.name}/")
            version = below.removesuffix(f"{_WITH_ERRORS}/{_ROWS}")
            if below != text and _VERSION.fullmatch(version):
                return version
            kind = "a link to elsewhere" if text else "a folder" if is_folder(self.link) else "a file"
        message = f"{kind} that is not ours stands where the table would be: {self.link}"
        raise RivetError("RVT-404", message, remediation=ADOPT if kind == "a folder" else None)

    def switch(self, version: str) -> None:
        """Switch readers to a version in one atomic step. Raises OSError."""
        link = self.home / f".link-{secrets.token_hex(4)}"
        os.symlink(self.link_text(version), link)
        try:
            os.replace(link, self.link)
        except BaseException:
            link.unlink(missing_ok=True)
            raise

    def unpublish(self) -> None:
        """Have readers find no table any more; its versions stay. Raises OSError."""
        os.unlink(self.link)

    @property
    def has_parts(self) -> bool:
        """Whether the table's storage needs files that hold the rows of one part each, as ``lay_out`` tells these."""
        return False

    def check_batch(self, columns: Iterable[str]) -> None:
        """Raise RVT-514 if a batch lacks columns that the table's storage needs."""

    def lay_out(self, session: EngineSession, frame: Frame, split_by: str | None) -> tuple[Frame, str | None]:
        """Return rows that are to be written, and the column by whose values they are split into files, if they are.

        The column is not stored. Raises RVT-404 for columns that the table cannot have.
        """
        return frame, split_by

    def forget(self, version: str) -> None:
        """Remove what a version has outside of its folders, when these have been removed. Raises OSError."""

    def new_version(self) -> str:
        """Return a name that sorts after those of all existing versions."""
        numbers = [int(version.partition("-")[0]) for version in self.versions()]
        return f"{max(numbers, default=0) + 1:08d}-{secrets.token_hex(4)}"


def entries_of(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none if it does not exist, or may not be read, as a disk's ``lost+found``."""
    try:
        with os.scandir(folder) as scanned:
            return list(scanned)
    except (FileNotFoundError, PermissionError):
        return []
