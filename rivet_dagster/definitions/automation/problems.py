"""What definitions find wrong with the ``dagster:`` block, collected to be raised at once."""

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
"""The keys of an entry that an error of what is built from it is about; the first that is there counts."""


class Problems:
    """The diagnostics ``found`` so far, each at its place in rivet.yaml."""

    def __init__(self, found: Iterable[Diagnostic] = ()) -> None:
        self.found = list(found)

    @contextmanager
    def of(self, place: str, origin: Origin) -> Iterator[None]:
        """Collect the RivetErrors of what is made from one entry, those without a place of their own at its keys.

        ``place`` names the entry in messages.
        """
        try:
            yield
        except RivetError as error:
            for one in error.diagnostics:
                if one.file is not None:
                    self.found.append(one)
                else:
                    key = next((key for key in _KEYS.get(one.code, ()) if key in origin.lines), None)
                    self.add(place, origin, one.code, one.message, key, one.remediation)

    def add(
        self,
        place: str,
        origin: Origin,
        code: str,
        message: str,
        key: str | None = None,
        remediation: str | None = None,
    ) -> None:
        """Collect one, at the line of ``key``."""
        self.found.append(origin.diagnostic(code, f"{place}: {message}", key=key, remediation=remediation))

    def raise_all(self) -> None:
        """Raise one RivetError that holds all of them by line, each once, where there are any."""
        if self.found:
            raise RivetError.of(sorted(dict.fromkeys(self.found), key=lambda one: (one.file or "", one.line or 0)))
