"""Errors in SQL text."""

from __future__ import annotations


class SqlError(ValueError):
    """SQL that cannot be used; ``line`` counts from 1 within it, None where it is not known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class UnreadableSql(SqlError):
    """SQL that this package's parser cannot read, although the engine may."""
