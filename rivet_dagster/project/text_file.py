"""Reading of text files: UTF-8, with any line endings, and errors with their line."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from pathlib import Path

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
