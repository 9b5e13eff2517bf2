"""A catalog without environments."""

from __future__ import annotations

from rivet_dagster.testing.memory import MemoryCatalog


class PlainMemory(MemoryCatalog):
    """Tables in memory that have no environments."""

    @property
    def environment_storage(self) -> None:
        """None."""
        return None
