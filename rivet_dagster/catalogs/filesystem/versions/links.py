"""Links that people made to versions, which keep those versions from being removed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rivet_dagster.catalogs.filesystem.versions.layout import HOMES, TableLayout


def unlinked(table: TableLayout, versions: Sequence[str]) -> list[str]:
    """Return the ``versions`` without a link below the catalog's folder to or into them. Raises OSError."""
    if not versions:
        return []
    home = Path(os.path.realpath(table.home))
    targets = (Path(os.path.realpath(link)) for link in _links(table.folder, HOMES))
    # The folders of a version begin with its name: `00000005-77b0e3d4.with_errors`.
    linked = {target.relative_to(home).parts[0].partition(".")[0] for target in targets if home in target.parents}
    return [version for version in versions if version not in linked]


def _links(folder: Path, skipped: str | None = None) -> Iterator[str]:
    """Yield all symbolic links below ``folder``, at any depth, but those below its subfolder ``skipped``."""
    try:
        with os.scandir(folder) as scanned:
            entries = list(scanned)
    except (FileNotFoundError, PermissionError):  # as a disk's `lost+found`
        return
    for entry in entries:
        if entry.is_symlink():
            yield entry.path
        elif entry.name != skipped and entry.is_dir(follow_symlinks=False):
            yield from _links(Path(entry.path))
