"""The text files of a project: which there are below a folder, and their text, UTF-8 with any line endings."""

from __future__ import annotations

import os
import posixpath
import re
from codecs import BOM_UTF8
from collections.abc import Collection
from pathlib import Path

from rivet_dagster.errors import RivetError

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


class TextError(ValueError):
    """An error at a line of a text; the message is a sentence without the position."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class UnreadableError(TextError):
    """A file that cannot be read, or is not UTF-8 text."""

    remediation = "Save the file as UTF-8 text."


def read_text(path: str | Path) -> str:
    """Return the file's text without a byte order mark, with its line endings. Raise UnreadableError."""
    try:
        with open(path, "rb", buffering=0) as file:
            content = file.read()
    except OSError as error:
        unreadable = UnreadableError(f"the file cannot be read: {error.strerror or type(error).__name__}", None)
        unreadable.remediation = "Make it a file that this user can read, or remove it."
        raise unreadable from None
    try:
        return content.removeprefix(BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = len(split_lines(error.object[: error.start].decode("latin-1") + "x"))
        raise UnreadableError("the file is not UTF-8 text", line) from None


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text, each with its line ending; only \n, \r\n and \r end a line.

    >>> split_lines("a\r\nb\x0cc\rd")
    ['a\r\n', 'b\x0cc\r', 'd']
    """
    return _LINE.findall(text)


def list_files(root: Path, folder: str, extensions: tuple[str, ...], without: Collection[str] = ()) -> list[str]:
    """Return the files with some extensions below ``folder``, relative to ``root``, sorted folder by folder.

    Folders in ``without`` are left out. Links are followed, but no folder is read twice, nor one that contains the
    link.
    """
    paths: list[str] = []
    seen: set[str] = set()
    waiting, linked = [folder], list[str]()  # real folders are read before links to them
    while waiting or linked:
        current = waiting.pop() if waiting else linked.pop()
        real = os.path.realpath(root / current)
        if real in seen or os.path.realpath((root / current).parent).startswith(os.path.join(real, "")):
            continue
        seen.add(real)
        for entry in _entries(root / current):
            path = posixpath.join(current, entry.name)
            if entry.name.startswith((".", "_")) or path in without:
                continue
            is_link = entry.is_symlink()
            if os.path.isdir(entry.path) if is_link else entry.is_dir():
                (linked if is_link else waiting).append(path)
            elif entry.name.lower().endswith(extensions) and (is_link or entry.is_file()):
                paths.append(path)
    return sorted(paths, key=lambda path: path.split("/"))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name, reverse=True)
    except OSError as error:
        raise RivetError("RVT-108", f"the folder {folder} cannot be read: {error.strerror}") from None
