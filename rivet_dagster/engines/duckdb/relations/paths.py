"""The files that the paths of a relation mean to Spark, and the columns in the names of their folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from urllib.parse import unquote

from rivet_dagster.engines.duckdb.types import literal
from rivet_dagster.engines.duckdb.writing import local_path
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import SparkType

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})\Z")
_PLAIN_TEXT = re.compile(r"[A-Za-z_ ][A-Za-z_ -]*\Z")
_GLOB_CHARACTERS = re.compile(r"([*?\[])")
_NO_NULL = "__HIVE_DEFAULT_PARTITION__"
_REMEDY = "Run the joint on Spark, which finds types by rules of its own."


@dataclass(frozen=True)
class DataFile:
    """A file, and the texts of the columns in the names of the folders that hold it."""

    path: str
    folders: tuple[tuple[str, str], ...] = ()


def data_files(paths: Sequence[str], engine: str = "duckdb") -> list[DataFile]:
    """Return the files in order. Raises RVT-519 for paths in a store, RVT-503 for those that do not exist."""
    found: list[DataFile] = []
    for path in paths:
        local = local_path(path)
        if local is None:
            message = f"the engine {engine} reads files of this machine, and not {path.partition('://')[0]}://"
            raise RivetError("RVT-519", message)
        matches = [local] if os.path.lexists(local) else sorted(glob(local, recursive=False))
        if not matches:
            raise RivetError("RVT-503", f"there is no file {local}")
        for match in matches:
            found += _below(match, ()) if os.path.isdir(match) else [DataFile(match)]
    return found


def _below(folder: str, columns: tuple[tuple[str, str], ...]) -> Iterator[DataFile]:
    """Yield the files that Spark reads in a folder: none that begin with a dot or an underscore."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith(".") or (entry.name.startswith("_") and "=" not in entry.name):
            continue
        if not entry.is_dir():
            yield DataFile(entry.path, columns)
            continue
        name, sign, text = entry.name.partition("=")
        if sign and name:
            yield from _below(entry.path, (*columns, (unquote(name), unquote(text))))


def folder_columns(files: Sequence[DataFile], declared: Mapping[str, SparkType]) -> list[tuple[str, SparkType]]:
    """Return the columns in the names of folders, with the types that are ``declared``, or that Spark infers.

    Raises RVT-519 where that may be another type than a number or a text, or where folders have different columns.

    >>> folder_columns([DataFile("/t/y=01/a", (("y", "01"),))], {})
    Traceback (most recent call last):
    rivet_dagster.errors.RivetError: RVT-519 the type of the column y, which is in the names of folders...
    """
    names = {tuple(name for name, _ in file.folders) for file in files}
    if len(names) > 1:
        raise RivetError("RVT-519", "some of the files lie in folders like `day=1`, and others do not")
    kinds = {name.lower(): kind for name, kind in declared.items()}
    columns = []
    for name in next(iter(names), ()):
        inferred = _inferred(name, {text for file in files for key, text in file.folders if key == name})
        if kinds.setdefault(name.lower(), inferred) != inferred:
            message = f"the column {name}, which is in the names of folders, is {inferred} there, not as declared"
            raise RivetError("RVT-519", message, remediation=_REMEDY)
        columns.append((name, inferred))
    return columns


def _inferred(name: str, texts: set[str]) -> SparkType:
    if all(map(_WHOLE.match, texts)):
        return SparkType("int" if all(-(2**31) <= int(text) < 2**31 for text in texts) else "bigint")
    if all(map(_PLAIN_TEXT.match, texts)) and _NO_NULL not in texts:
        return SparkType("string")
    message = f"the type of the column {name}, which is in the names of folders, is not certain"
    raise RivetError("RVT-519", message, remediation=_REMEDY)


def list_of(files: Sequence[DataFile]) -> str:
    """Return the paths as a list of DuckDB's SQL, in which no character of a path is a glob.

    >>> list_of([DataFile("/a[1].parquet")])
    "['/a[[]1].parquet']"
    """
    escaped = [_GLOB_CHARACTERS.sub(r"[\1]", file.path) for file in files]
    return f"[{', '.join(map(literal, escaped))}]"
