"""Links that people make to versions, or into them: such versions stay when they expire."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.file_status import names_in
from rivet_dagster.catalogs.filesystem.versions.error_tables import table_of
from rivet_dagster.catalogs.filesystem.versions.layout import HOMES, TableLayout, entries_of


def find_unlinked(table: TableLayout, versions: Sequence[str]) -> list[str]:
    """Return the ``versions`` without a link below the catalog's folder to or into them. Raises OSError.

    The links of the catalog's other tables, which lead to versions of their own, are not looked at.
    """
    if not versions:
        return []
    home = Path(os.path.realpath(table.home))
    others = list_others(table.folder) if table.others is None else table.others
    targets = (Path(os.path.realpath(link)) for path in (table.link, *others) for link in _links(path))
    # The folders of a version begin with its name: `00000005-77b0e3d4.with_errors`.
    linked = {target.relative_to(home).parts[0].partition(".")[0] for target in targets if home in target.parents}
    return [version for version in versions if version not in linked]


def list_others(folder: Path) -> tuple[Path, ...]:
    """Return what lies in a catalog's folder besides the links of its tables and error tables. Raises OSError.

    The link to an error table leads through that of its table: to the published version, or nowhere.
    """
    tables = {*names_in(folder / HOMES)}
    others = (name for name in names_in(folder) if name != HOMES and name not in tables)
    return tuple(folder / name for name in others if table_of(folder, name) not in tables)


def _links(path: Path) -> Iterator[Path]:
    """Yield the path if it is a symbolic link, or else those at any depth below it."""
    if path.is_symlink():
        yield path
    elif path.is_dir():
        for entry in entries_of(path):
            if entry.is_symlink():
                yield Path(entry)
            elif entry.is_dir(follow_symlinks=False):
                yield from _links(Path(entry))
