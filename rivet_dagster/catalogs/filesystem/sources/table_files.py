"""The files of a source's table, which is a file, a directory or a glob: format, options, fingerprint."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePath
from typing import Any

from rivet_dagster.catalogs.filesystem.sources.file_tree import FileTree, is_ignored
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.relations import Files

FORMATS = ("parquet", "csv", "json", "orc")

_EXTENSIONS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
}
_COMPRESSIONS = (".gz", ".bz2", ".zst")


def extension(path: str) -> str:
    """Return the extension of ``path`` in lower case, without that of a compression.

    >>> extension("landing/Orders.CSV.gz")
    '.csv'
    """
    name = PurePath(path.lower())
    return PurePath(name.stem).suffix if name.suffix in _COMPRESSIONS else name.suffix


def format_of(path: str) -> str | None:
    """Return the format that the extension of ``path`` stands for; None if it is not known.

    >>> format_of("orders.ndjson"), format_of("orders")
    ('json', None)
    """
    return _EXTENSIONS.get(extension(path))


def chosen_format(options: Mapping[str, Any]) -> str | None:
    """Return the ``format`` in the user's ``options``, None without one. Raises RVT-204."""
    chosen = options.get("format")
    if chosen is not None and chosen not in FORMATS:
        raise RivetError("RVT-204", f"no format is called {show(chosen)}{nearest(str(chosen), FORMATS)}")
    return chosen


def reader_options(format: str, path: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the engine's options for reading ``path``: our defaults, overridden by the user's. Raises RVT-204.

    >>> reader_options("csv", "orders.tsv", {"header": False})
    {'enforceSchema': 'false', 'sep': '\\t', 'header': 'false'}
    """
    defaults = {}
    if format == "csv":
        # Otherwise Spark ignores all headers but the first file's, and assigns the schema's names by position.
        defaults = {"header": "true", "enforceSchema": "false"}
        if extension(path) == ".tsv":
            defaults["sep"] = "\t"
    given = as_texts(options)
    spelled = {key.lower() for key in given}
    if "delimiter" in spelled:
        spelled.add("sep")
    return {key: value for key, value in defaults.items() if key.lower() not in spelled} | given


def as_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return reader or writer options, all but ``format``, as texts that Spark understands. Raises RVT-204.

    >>> as_texts({"format": "csv", "multiLine": True, "samplingRatio": 0.5})
    {'multiLine': 'true', 'samplingRatio': '0.5'}
    """
    texts = {}
    for key, value in options.items():
        if key == "format":
            continue
        if not isinstance(value, str | bool | int | float):
            raise RivetError("RVT-204", f"the option `{key}` must be a text, a number or a boolean, not {show(value)}")
        texts[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


_GLOB = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_PATTERNS = 1000


@dataclass(frozen=True)
class TableFiles:
    """The files and folders of ``tree`` that make up a table, their format, and the name of the first as an example."""

    tree: FileTree
    format: str
    paths: tuple[PurePath, ...]
    example: str


def find(tree: FileTree, table: str, default_format: str, options: Mapping[str, Any]) -> TableFiles:
    """Return the current files of ``table``. Raises RVT-403 if there are none that an engine would read."""
    with tree.looking(tree.join(table)):
        paths = _existing_roots(tree, table, default_format)
        return _described(tree, table, default_format, options, paths, next(tree.data_files(paths), None))


def find_all(tree: FileTree, table: str, default_format: str, options: Mapping[str, Any]) -> tuple[TableFiles, str]:
    """Return what ``find`` does, and the ``fingerprint`` of these files, for which all are listed once."""
    with tree.looking(tree.join(table)):
        paths = _existing_roots(tree, table, default_format)
        files = list(tree.data_files(paths))
        found = _described(tree, table, default_format, options, paths, files[0] if files else None)
        return found, fingerprint_of(files, tree.folder)


def _existing_roots(tree: FileTree, table: str, default_format: str) -> tuple[PurePath, ...]:
    path = tree.join(table)
    paths = roots(tree, table, default_format)
    if not paths and is_glob(table):
        raise RivetError("RVT-403", f"no file matches {tree.shown(path)}")
    if not paths:
        raise RivetError("RVT-403", f"{tree.shown(path)} does not exist{hint(tree, path)}")
    return paths


def _described(
    tree: FileTree,
    table: str,
    default_format: str,
    options: Mapping[str, Any],
    paths: tuple[PurePath, ...],
    first: LandedFile | None,
) -> TableFiles:
    if first is None and "schema" not in {key.lower() for key in options}:
        # Names that begin with _ or . are ignored, as they are by Spark.
        raise RivetError("RVT-403", f"{tree.shown(tree.join(table))} holds no data file, and no `schema` is given")
    example = PurePath(first.path).name if first is not None else table
    format = chosen_format(options) or format_of(table) or (format_of(example) if first else None) or default_format
    return TableFiles(tree, format, paths, example)


def roots(tree: FileTree, table: str, default_format: str) -> tuple[PurePath, ...]:
    """Return the files and folders that ``table`` names now."""
    path = tree.join(table)
    paths = tree.existing(path) or tree.existing(path.parent / f"{path.name}.{default_format}")
    if not paths and is_glob(table):
        paths = tuple(root for match in matches(tree, table) for root in tree.existing(match))
    return paths


def relation(table: TableFiles, options: Mapping[str, Any]) -> Files:
    """Return the relation by which an engine reads the files."""
    return Files(
        table.format,
        tuple(map(table.tree.address, table.paths)),
        reader_options(table.format, table.example, options),
    )


def fingerprint(table: TableFiles) -> str:
    """Return a short text that changes when a file is added, removed or written again.

    Files in folders that the engine ignores are included: a needless change is harmless, a missed one is not.
    """
    with table.tree.looking(table.paths[0]):
        return fingerprint_of(table.tree.data_files(table.paths), table.tree.folder)


def fingerprint_of(files: Iterable[LandedFile], folder: PurePath) -> str:
    """Return the fingerprint of a table that consists of ``files``, in any order; ``folder`` is the catalog's."""

    def name(file: LandedFile) -> str:
        return os.path.relpath(file.path, folder) if os.path.isabs(file.path) else file.path

    digest = hashlib.sha256()
    for file in sorted(files, key=name):
        digest.update(f"{name(file)}\0{file.size}\0{file.mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def is_glob(table: str) -> bool:
    """Return whether ``table`` is a pattern.

    >>> is_glob("days/*.csv"), is_glob("days")
    (True, False)
    """
    return _GLOB.search(table) is not None


def fixed_folder(tree: FileTree, table: str) -> PurePath:
    """Return the deepest folder that contains all matches of the glob ``table``, at any depth."""
    parts = takewhile(lambda part: not is_glob(part), tree.path_of(table).parts)
    return tree.folder.joinpath(*parts)


def matches(tree: FileTree, table: str, all_parts: bool = False) -> tuple[PurePath, ...]:
    """Return the matches of the glob ``table``, in order, but those with names that engines ignore.

    With ``all_parts``, matches inside of folders with such names are left out, too.
    """
    paths = {
        match for pattern in without_braces(str(tree.path_of(table))) for match in _expanded(tree, PurePath(pattern))
    }
    fixed = len(fixed_folder(tree, table).parts) if all_parts else -1
    return tuple(path for path in sorted(paths) if not any(is_ignored(part) for part in path.parts[fixed:]))


def _expanded(tree: FileTree, pattern: PurePath) -> list[PurePath]:
    """Return the matches of a glob. Unlike ``glob.glob``, raises OSError for folders that cannot be listed."""
    start = tree.folder / pattern.anchor  # the root for an absolute pattern
    paths = [start]
    for part in pattern.relative_to(pattern.anchor).parts:
        if glob.has_magic(part):
            paths = [
                folder / name
                for folder in paths
                for name in fnmatch.filter(tree.names_in(folder), part)
                if part.startswith(".") or not name.startswith(".")
            ]
        else:
            paths = [path for folder in paths if tree.exists(path := folder / part)]
    return paths


def without_braces(pattern: str) -> list[str]:
    """Return the patterns that ``{a,b}`` expands to, in order. Raises RVT-204 if they are more than a thousand.

    >>> without_braces("{2023,2024}/*.csv")
    ['2023/*.csv', '2024/*.csv']
    """
    patterns: list[str] = []
    waiting = [pattern]
    while waiting:
        text = waiting.pop()
        match = _BRACES.search(text)
        choices = match[1].split(",") if match else []
        if len(patterns) + len(waiting) + len(choices) > _MOST_PATTERNS:
            message = f"the {{a,b}} of `table` stand for more than {_MOST_PATTERNS} patterns"
            raise RivetError("RVT-204", message, remediation="Name fewer, or use `*`.")
        if match:
            waiting += [text[: match.start()] + choice + text[match.end() :] for choice in reversed(choices)]
        else:
            patterns.append(text)
    return patterns


def hint(tree: FileTree, path: PurePath) -> str:
    """Return the end of a message about a path that does not exist: the nearest name, or the missing folder."""
    if not tree.is_folder(path.parent):
        return "" if path.parent == path else f"; nor does the folder {tree.shown(path.parent)}"
    return nearest(path.name, [name for name in tree.names_in(path.parent) if not is_ignored(name)])
