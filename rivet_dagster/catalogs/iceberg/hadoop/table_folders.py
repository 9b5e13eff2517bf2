"""Folders of tables in a warehouse of this machine, and the files in them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import TableAlreadyExistsError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table


def local_path(location: str) -> Path:
    """Return the path of a location, which Hadoop does not decode. Raises ValueError."""
    path = location.removeprefix("file:")
    if path.startswith("//"):
        path = "/" + path.lstrip("/")
    if not path.startswith("/"):
        raise ValueError(f"the warehouse of a hadoop catalog is an absolute path of this machine, not {location!r}")
    return Path(path)


def refuse_other_files(folder: Path) -> None:
    """Raise TableAlreadyExistsError for a file, and for a folder with files, which tables only have further below."""
    try:
        with os.scandir(folder) as entries:
            files = sorted(entry.name for entry in entries if entry.is_file() and not entry.name.startswith("."))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        files = [folder.name]
    if files:
        raise TableAlreadyExistsError(f"there is something else in its place, with the file {files[0]}")


def files_elsewhere(table: Table) -> set[str]:
    """Return the paths of the data and delete files of all snapshots that do not lie in the table's folder."""
    manifests = {manifest for snapshot in table.metadata.snapshots for manifest in snapshot.manifests(table.io)}
    entries = (entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io))
    own = f"{local_path(table.metadata.location)}/"
    paths = {entry.data_file.file_path for entry in entries}
    return {path for path in paths if not path.removeprefix("file:").startswith(own)}


def delete_file(io: FileIO, path: str) -> None:
    """Delete a file, if it exists."""
    with suppress(FileNotFoundError):  # a file that only an older snapshot has may be gone
        io.delete(path)


def remove_tree(folder: Path) -> None:
    """Remove a folder, maybe while another process does so, too."""

    def failed(function: Any, path: str, error: Any) -> None:
        if not isinstance(error[1], FileNotFoundError):
            raise error[1]

    shutil.rmtree(folder, onerror=failed)
