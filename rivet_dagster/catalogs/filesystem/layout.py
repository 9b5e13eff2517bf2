"""How a published table lies on disk.

``<path>/orders`` is a relative link to one of the folders of its versions; a manifest stands beside each::

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
    <path>/.rivet/orders/00000004-e0a95c2f.kept
    <path>/.rivet/orders/00000001-1d0c52e9.removed/  being removed
    <path>/.rivet/orders/publishers.jsonl  of expired versions
    <path>/.rivet/orders/lock

A folder whose version the link cannot be followed back to, manifest by manifest, was never published; without a sign of
life beside it, it is a dead run's, unless a mark says that it is withheld, or a link that a person made leads to it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from rivet_dagster.catalogs.filesystem.presence import MISSING, is_folder, looking, names_in
from rivet_dagster.errors import RivetError
from rivet_dagster.model.convert import show

HOMES = ".rivet"
"""The folder of a catalog in which the tables' versions are."""

_NAME = re.compile(r"\w[\w.-]*")
_VERSION = re.compile(r"\d{8,}-[0-9a-f]{8}")
_SUFFIXES = (".json", ".alive", ".kept", ".removed", ".watermark")


def is_table_name(name: str) -> bool:
    """Whether a table can be called so.

    >>> is_table_name("marts.orders-2024"), is_table_name(".DS_Store"), is_table_name("a/b")
    (True, False, False)
    """
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True)
class TableLayout:
    """The places of one table in a catalog's folder."""

    folder: Path
    name: str

    def __post_init__(self) -> None:
        if not is_table_name(self.name):
            raise RivetError(
                "RVT-404",
                f"no table can be called {show(self.name)}",
                remediation="The table of a filesystem sink is a plain name: letters, digits, '_', '-' and '.', "
                "beginning with a letter, a digit or '_'.",
            )

    @property
    def link(self) -> Path:
        """What readers open."""
        return self.folder / self.name

    @property
    def home(self) -> Path:
        """The folder of the versions."""
        return self.folder / HOMES / self.name

    @property
    def lock(self) -> Path:
        """The file that whoever changes what is published holds a lock on."""
        return self.home / "lock"

    @property
    def publishers(self) -> Path:
        """The file that says who published the versions that have expired."""
        return self.home / "publishers.jsonl"

    def data(self, version: str) -> Path:
        """The folder of a version's files."""
        return self._of(version)

    def manifest(self, version: str) -> Path:
        """The file that describes a version."""
        return self._of(version, ".json")

    def alive(self, version: str) -> Path:
        """The file whose time says when the run that builds a version was last alive."""
        return self._of(version, ".alive")

    def files(self, version: str) -> Path:
        """The file that says what the footers of a version's files tell."""
        return self._of(version, ".files.json")

    def withheld(self, version: str) -> Path:
        """The file that marks a version as withheld."""
        return self._of(version, ".kept")

    def watermark(self, version: str) -> Path:
        """The file with what a person set in place of the watermark of a version."""
        return self._of(version, ".watermark")

    def removed(self, version: str) -> Path:
        """Where a version's folder goes while its files are removed one by one."""
        return self._of(version, ".removed")

    def _of(self, version: str, suffix: str = "") -> Path:
        # A person may have typed it: a path would lead to another table.
        if not _VERSION.fullmatch(version):
            raise RivetError("RVT-408", f"'{self.name}' has no version {show(version)}")
        return self.home / f"{version}{suffix}"

    def versions(self) -> set[str]:
        """All versions of which anything is there."""
        names = names_in(self.home)
        bare = (name.partition(".")[0] if name.endswith(_SUFFIXES) else name for name in names)
        return {name for name in bare if _VERSION.fullmatch(name)}

    def link_text(self, version: str) -> str:
        """Relative, so that the catalog's folder can be moved or mounted elsewhere."""
        return f"{HOMES}/{self.name}/{version}"

    def published(self) -> str | None:
        """The version that readers see, None where nothing stands.

        Raises RVT-404 where something else does, RVT-403 where that cannot be looked up.
        """
        with looking(self.link):
            try:
                text = os.readlink(self.link)
            except OSError as error:
                if error.errno in MISSING:
                    return None
                if error.errno != errno.EINVAL:  # the answer about what is no link
                    raise
                text = ""
            version = os.path.basename(text)
            if text == self.link_text(version) and _VERSION.fullmatch(version):
                return version
            kind = "a link to elsewhere" if text else "a folder" if is_folder(self.link) else "a file"
        raise RivetError("RVT-404", f"{kind} that is not ours stands where the table would be: {self.link}")

    def new_version(self) -> str:
        """A name that sorts after those of all versions that are there."""
        numbers = [int(version.partition("-")[0]) for version in self.versions()]
        return f"{max(numbers, default=0) + 1:08d}-{secrets.token_hex(4)}"
