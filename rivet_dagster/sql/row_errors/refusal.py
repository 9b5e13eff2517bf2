"""The reason why the errors of a query cannot be separated from its rows."""

from __future__ import annotations


class RefusedError(Exception):
    """A construct with an expression in it that can fail, on a line of the query, whose errors cannot be told apart."""

    def __init__(self, construct: str, line: int) -> None:
        super().__init__(construct)
        self.construct = construct
        self.line = line
