"""The manifests of snapshots and the entries in them, as PyIceberg reads them; a damaged file is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table.snapshots import Snapshot

T = TypeVar("T")


def manifests_of(snapshot: Snapshot | None, io: FileIO) -> list[ManifestFile]:
    """Return the manifests that the list of a snapshot names, none without a snapshot.

    Raises OSError for a list that cannot be read, RVT-407 for a damaged one.
    """
    return [] if snapshot is None else _read(snapshot.manifest_list, lambda: snapshot.manifests(io))


def entries_of(manifest: ManifestFile, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
    """Return the entries of a manifest, by default without those of files that its snapshot has removed.

    Raises OSError for a file that cannot be read, RVT-407 for a damaged one.
    """
    return _read(manifest.manifest_path, lambda: manifest.fetch_manifest_entry(io, discard_deleted))


def _read(path: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except (OSError, RivetError):
        raise
    except Exception as error:  # PyIceberg's decoder trusts the bytes: EOFError, UnicodeDecodeError, SystemError, ...
        remedy = "Restore the file, or have Spark expire the snapshots that need it."
        raise RivetError("RVT-407", f"the metadata file {path} is damaged: {error!r}", remediation=remedy) from error
