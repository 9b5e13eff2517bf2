"""Links that people made to versions: what one of them leads to is theirs, and stays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rivet_dagster.catalogs.filesystem.layout import HOMES, TableLayout


def unlinked(table: TableLayout, versions: Sequence[str]) -> list[str]:
    """Return the ``versions`` that no link below the catalog's folder leads to, or into. Raises OSError."""
    if not versions:
        return []
    home = Path(os.path.realpath(table.home))
    targets = (Path(os.path.realpath(link)) for link in _links(table.folder, HOMES))
    linked = {target.relative_to(home).parts[0] for target in targets if home in target.parents}
    return [version for version in versions if version not in linked]


def _links(folder: Path, but: str | None = None) -> Iterator[str]:
    """All symbolic links at any depth, in the folder itself not those below ``but``."""
    try:
        with os.scandir(folder) as entries:
            there = list(entries)
    except (FileNotFoundError, PermissionError):  # as a disk's `lost+found`
        return
    for entry in there:
        if entry.is_symlink():
            yield entry.path
        elif entry.name != but and entry.is_dir(follow_symlinks=False):
            yield from _links(Path(entry.path))
