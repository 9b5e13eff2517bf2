"""Links in a catalog's folder besides those of its tables: to error tables, and to versions, which people make.

An error table is a second table in each version. Its link ``orders__errors -> orders/../errors/orders__errors`` leads
through the link of the table to the version that this is at, and there from the folder of the rows to that of the
errors. So the one switch of the table's link publishes both. The folder of the rows holds nothing else, since some
readers, as DuckDB and polars, also read all subfolders. A version is built without knowing whether it gets an error
table. Therefore its rows are moved beside the errors only when it is published, before the switch.

A version to which, or into which, a person's link leads stays when it expires.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.file_status import (
    MISSING,
    exists,
    is_folder,
    names_in,
    translate_read_errors,
)
from rivet_dagster.catalogs.filesystem.versions.layout import HOMES, TableLayout, entries_of
from rivet_dagster.catalogs.versions.refusals import refuse_second_errors
from rivet_dagster.errors import RivetError

_ERRORS = "errors"


def error_table(table: TableLayout, version: str) -> str | None:
    """Return the name of the error table of a version; None without one. Raises OSError."""
    return next(iter(names_in(table.with_errors(version) / _ERRORS)), None)


def errors_folder(table: TableLayout, version: str) -> Path | None:
    """Return the folder of the files of a version's error table; None without one. Raises OSError."""
    name = error_table(table, version)
    return _folder(table, version, name) if name is not None else None


def make_errors_folder(table: TableLayout, version: str, name: str) -> Path:
    """Return the folder of the error table ``name`` of a version that is being built, which is made if it is missing.

    Raises RVT-404 if the version cannot have an error table of that name, OSError.
    """
    check_place(table, name)
    refuse_second_errors(f"the version {version} of '{table.name}'", error_table(table, version), name)
    folder = _folder(table, version, name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def check_place(table: TableLayout, name: str) -> None:
    """Raise RVT-404 if no table can have that name, or if something else is at its path; RVT-403."""
    link = TableLayout(table.folder, name).link
    if link.name.lower() == table.link.name.lower():
        raise RivetError("RVT-404", f"the table '{table.name}' cannot be its own error table")
    with translate_read_errors(link):
        text = _link_text(link)
        if text == _text(table, name) or not exists(link, follow=False):
            return
        kind = "a link to elsewhere" if text else "a folder" if is_folder(link) else "a file"
    raise RivetError("RVT-404", f"{kind} that is not ours stands where the error table would be: {link}")


def move_rows(table: TableLayout, version: str) -> None:
    """Move the rows of a version beside its error table, if it has one. Raises OSError."""
    if error_table(table, version) is not None and not is_folder(table.rows_with_errors(version)):
        os.rename(table.rows_alone(version), table.rows_with_errors(version))


def make_link(table: TableLayout, version: str) -> bool:
    """Make the link to the error table of a version, if it has one; return whether there is a new link.

    Until the table is switched to the version, the link leads nowhere. Raises RVT-403, RVT-404, OSError.
    """
    name = error_table(table, version)
    if name is None:
        return False
    check_place(table, name)
    link = table.folder / name
    if exists(link, follow=False):
        return False
    os.symlink(_text(table, name), link)
    return True


def remove_link(table: TableLayout, name: str) -> None:
    """Remove the link to the error table ``name`` if it is the table's. Raises OSError."""
    link = table.folder / name
    if _link_text(link) == _text(table, name):
        link.unlink(missing_ok=True)


def remove_links(table: TableLayout) -> None:
    """Remove the links to the table's error tables. Raises OSError."""
    for link in _links(table, table.versions()):
        link.unlink(missing_ok=True)


def remove_replaced_link(table: TableLayout, version: str, before: str) -> None:
    """Remove the link to the error table of the version ``before``, unless ``version`` has one of its name.

    Raises OSError.
    """
    name = error_table(table, before)
    if name is not None and name != error_table(table, version):
        remove_link(table, name)


def remove_stale_links(table: TableLayout, versions: Iterable[str]) -> None:
    """Remove the links to error tables, of these versions and others, that the published version does not have.

    Those of others are not found if they have the name of a table that is or was published on its own.
    Raises RVT-403, RVT-404, OSError.
    """
    if not table.has_link:
        return  # nor has an error table one
    version = table.published()
    current = error_table(table, version) if version is not None else None
    for link in _links(table, versions):
        if link.name != current:
            link.unlink(missing_ok=True)


def table_of(folder: Path, name: str) -> str | None:
    """Return the table with whose versions the error table ``name`` of a catalog's folder is published.

    None if it is no error table. Raises OSError.
    """
    table, _, rest = (_link_text(folder / name) or "").partition("/")
    return table if rest == f"../{_ERRORS}/{name}" else None


def _links(table: TableLayout, versions: Iterable[str]) -> Iterator[Path]:
    """Yield the links to the table's error tables, which are those of ``versions``, or have not the name of a table.

    Other tables' links to their rows are not looked at.
    """
    error_tables = {error_table(table, version) for version in versions}
    tables = {*names_in(table.home.parent)} - error_tables
    for entry in entries_of(table.folder):
        is_candidate = entry.is_symlink() and entry.name not in tables
        if is_candidate and _link_text(Path(entry.path)) == _text(table, entry.name):
            yield Path(entry.path)


def _link_text(path: Path) -> str | None:
    """Return the target of a link; None if it is none, or does not exist."""
    try:
        return os.readlink(path)
    except OSError as error:
        if error.errno == errno.EINVAL or error.errno in MISSING:
            return None
        raise


def _text(table: TableLayout, name: str) -> str:
    return f"{table.name}/../{_ERRORS}/{name}"


def _folder(table: TableLayout, version: str, name: str) -> Path:
    return table.with_errors(version) / _ERRORS / name


def find_unlinked(table: TableLayout, versions: Sequence[str]) -> list[str]:
    """Return the ``versions`` without a link below the catalog's folder to or into them. Raises OSError.

    The links of the catalog's other tables, which lead to versions of their own, are not looked at.
    """
    if not versions:
        return []
    home = Path(os.path.realpath(table.home))
    others = list_others(table.folder) if table.others is None else table.others
    targets = (Path(os.path.realpath(link)) for path in (table.link, *others) for link in _links_below(path))
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


def _links_below(path: Path) -> Iterator[Path]:
    """Yield the path if it is a symbolic link, or else those at any depth below it."""
    if path.is_symlink():
        yield path
    elif path.is_dir():
        for entry in entries_of(path):
            if entry.is_symlink():
                yield Path(entry)
            elif entry.is_dir(follow_symlinks=False):
                yield from _links_below(Path(entry))
