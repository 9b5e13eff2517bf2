"""Errors in the arguments of a sensor, collected to be raised as one error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.origin import Origin


class Mistakes:
    """The errors of the sensor ``name``, which is declared at ``origin``, or in Python."""

    def __init__(self, name: str, origin: Origin | None) -> None:
        self._name = name
        self._origin = origin or Origin()
        self._diagnostics: list[Diagnostic] = []

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Collect a RivetError of the block, which then ends, as an error of the argument ``key``."""
        try:
            yield
        except RivetError as error:
            for problem in error.diagnostics:
                message = f"sensor '{self._name}': `{key}`: {problem.message}"
                diagnostic = self._origin.diagnostic(problem.code, message, key=key, remediation=problem.remediation)
                self._diagnostics.append(diagnostic)

    def raise_all(self) -> None:
        """Raise one RivetError with all diagnostics, if there are any."""
        if self._diagnostics:
            raise RivetError.of(self._diagnostics)
