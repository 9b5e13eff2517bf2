"""Errors of texts of SQL."""

from __future__ import annotations


class SqlError(ValueError):
    """A text that cannot be used as it stands; ``line`` counts from 1 within it, None where it is not known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Unreadable(SqlError):
    """A text that the parser here cannot read; the engine may."""
