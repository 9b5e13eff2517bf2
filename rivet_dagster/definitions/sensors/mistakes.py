"""What is wrong with the arguments of a sensor: all of it told at once, where rivet.yaml says it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.origin import Origin


class Mistakes:
    """Those of the sensor ``name``, which is declared at ``origin``, or in Python."""

    def __init__(self, name: str, origin: Origin | None) -> None:
        self._name = name
        self._origin = origin or Origin()
        self._found: list[Diagnostic] = []

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """What the block raises is wrong with ``key``; the block ends there."""
        try:
            yield
        except RivetError as error:
            for one in error.diagnostics:
                message = f"sensor '{self._name}': `{key}`: {one.message}"
                placed = self._origin.diagnostic(one.code, message, key=key, remediation=one.remediation)
                self._found.append(placed)

    def raise_all(self) -> None:
        """One RivetError, where there is any."""
        if self._found:
            raise RivetError.of(self._found)
