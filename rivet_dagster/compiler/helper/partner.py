"""The other one of two processes that share work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from rivet_dagster.compiler.helper.messages import Notes


class Partner(ABC):
    """The other process, as one of them sees it."""

    @abstractmethod
    def send(self, notes: Notes) -> None:
        """Tell it something, after a portion of work."""

    @abstractmethod
    def receive(self) -> Iterator[Notes]:
        """Yield what it has told since the last call, in order."""

    @abstractmethod
    def wait(self) -> bool:
        """Wait a moment; return whether it may still tell something."""
