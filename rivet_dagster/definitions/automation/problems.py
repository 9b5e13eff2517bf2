"""Errors of the ``dagster:`` block, collected to be raised as one error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.origin import Origin

_KEYS = {
    "RVT-104": ("cron_schedule", "cron"),
    "RVT-115": ("target",),
    "RVT-116": ("target",),
    "RVT-117": ("sources",),
    "RVT-118": ("partition_offset",),
}
"""By error code, the keys of an entry that the error may refer to; the first one that the entry has is taken."""


class Problems:
    """A collection of diagnostics, each at its line of rivet.yaml."""

    def __init__(self, diagnostics: Iterable[Diagnostic] = ()) -> None:
        self.diagnostics = list(diagnostics)

    @contextmanager
    def of(self, entry: str, origin: Origin) -> Iterator[None]:
        """Collect the RivetErrors of the block; an error without a line gets the line of the key it refers to.

        ``entry`` names the entry of rivet.yaml in messages.
        """
        try:
            yield
        except RivetError as error:
            for diagnostic in error.diagnostics:
                code = diagnostic.code
                if diagnostic.file is not None:
                    self.diagnostics.append(diagnostic)
                else:
                    key = next((key for key in _KEYS.get(code, ()) if key in origin.lines), None)
                    self.add(entry, origin, code, diagnostic.message, key, diagnostic.remediation)

    def add(
        self,
        entry: str,
        origin: Origin,
        code: str,
        message: str,
        key: str | None = None,
        remediation: str | None = None,
    ) -> None:
        """Add a diagnostic at the line of ``key``."""
        self.diagnostics.append(origin.diagnostic(code, f"{entry}: {message}", key=key, remediation=remediation))

    def raise_all(self) -> None:
        """Raise one RivetError with all diagnostics, without duplicates and ordered by line, if there are any."""
        if self.diagnostics:
            by_line = sorted(
                dict.fromkeys(self.diagnostics), key=lambda problem: (problem.file or "", problem.line or 0)
            )
            raise RivetError.of(by_line)
