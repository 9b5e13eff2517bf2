"""A folder of Parquet files that somebody else has written, as far as it can be a version of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rivet_dagster.catalogs.filesystem.files.data_files import Footers
from rivet_dagster.catalogs.filesystem.files.file_status import is_folder, names_in
from rivet_dagster.catalogs.filesystem.files.footers import Footer, is_data, parquet_files
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import parse_type
from rivet_dagster.model.storage import ExistingTable, Statistics

_OTHER_FORMATS = {"_delta_log": "Delta", "metadata": "Iceberg", ".hoodie": "Hudi"}
"""Formats of tables by a folder among their files."""

WRITE_ANEW = "Read it as a source, and write its rows to a table of another name."
"""The remedy for what no version can be."""


@dataclass(frozen=True)
class ParquetFolder:
    """The Parquet files in a folder, all in the folder itself and with the same columns; a version can have no others.

    ``footers`` are those of the files.
    """

    folder: Path
    files: tuple[Path, ...]
    footers: Footers

    @classmethod
    def of(cls, folder: Path) -> ParquetFolder:
        """Return the files in a folder. Raises RVT-404 if it holds others, or what Spark does not read; OSError."""
        refuse_other_formats(folder)
        for name in names_in(folder):
            if is_data(name) and is_folder(folder / name):
                raise refuse_folder(folder, f"has its files in folders, as in {name}", WRITE_ANEW)
        files = tuple(parquet_files(folder))
        if not files:
            raise refuse_folder(folder, "has no Parquet file, which would tell its columns", "Move it away.")
        footers = Footers()
        require_same_columns(folder, files, footers.of)
        return cls(folder, files, footers)

    @property
    def statistics(self) -> Statistics:
        """The statistics in the footers of the files."""
        return self.footers.statistics(self.files)

    def describe(self, uri: str) -> ExistingTable:
        """Return the table at ``uri`` that the files make up."""
        statistics = self.statistics
        files = f"{len(self.files):,} of Parquet"
        return ExistingTable(uri, statistics, {"files": files, "partitions": "none"})


def refuse_other_formats(folder: Path) -> None:
    """Raise RVT-404 for a folder whose files another format than Parquet alone makes a table."""
    for name, format in _OTHER_FORMATS.items():
        if is_folder(folder / name):
            raise refuse_folder(folder, f"is a table of the format {format}", "Use a catalog for that format.")


def require_same_columns(folder: Path, files: Iterable[Path], footer_of: Callable[[Path], Footer]) -> None:
    """Raise RVT-404 unless the files of a folder have the same columns, all of types that Spark reads."""
    first: Path | None = None
    expected: frozenset[tuple[str, str]] | None = None
    for path in files:
        try:
            footer = footer_of(path)
        except RivetError as error:
            why = f"has a file that is not read: {error.diagnostics[0].message}"
            raise refuse_folder(folder, why, "Move the file away, or mend it.") from error
        columns = frozenset(footer.statistics.columns)
        for name, type_ in columns if footer.schema is None else ():  # else Spark wrote it
            if not _has_spark(type_):
                why = f"has a column '{name}' of the type {type_}, which Spark does not read"
                raise refuse_folder(folder, why, WRITE_ANEW)
        if first is not None and expected is not None and columns != expected:
            differing = ", ".join(sorted({name for name, _ in expected ^ columns}))
            shown = " and ".join(str(file.relative_to(folder)) for file in (first, path))
            raise refuse_folder(folder, f"has files whose columns differ, {shown}: {differing}", WRITE_ANEW)
        first, expected = first or path, columns


def _has_spark(type_: str) -> bool:
    """Return whether Spark has a type of this name, as it is in footers."""
    try:
        parse_type(type_)
    except ValueError:
        return False
    return True


def refuse_folder(folder: Path, why: str, remedy: str) -> RivetError:
    """Return RVT-404 for a folder that is not taken over; ``why`` is the end of a sentence."""
    return RivetError("RVT-404", f"{folder} cannot be taken over: it {why}", remediation=remedy)
