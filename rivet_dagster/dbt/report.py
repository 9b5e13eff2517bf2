"""The report of an import: for everything in the dbt project what became of it, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rivet_dagster.dbt.declared import Place

UNCHANGED, CHANGED, COMPILED, LEFT_OUT = "unchanged", "changed", "compiled", "left_out"

TOLD_ONLY = frozenset(
    "macro docs exposure unit_test hook grants disabled materialization group variable profile file_format link "
    "setting selector macro_description".split()
)
"""Kinds of which one that is left out is told, but does not make the import a partial one."""


@dataclass(frozen=True)
class Entry:
    """Result for one model, test or other thing; ``check`` is that of a test, ``kind`` that of another thing."""

    name: str
    place: Place
    status: str
    joint: str | None = None
    reasons: tuple[str, ...] = ()
    check: str | None = None
    kind: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as the command line prints it in JSON."""
        own: dict[str, Any] = {"name": self.name}
        if self.kind is not None:
            own["kind"] = self.kind
        own |= {"file": self.place.file, "line": self.place.line, "joint": self.joint}
        return own | {"status": self.status, "reasons": list(self.reasons)}


def disabled(name: str, place: Place, kind: str) -> Entry:
    """Return what is told of a node that is disabled."""
    return Entry(name, place, LEFT_OUT, reasons=(f"the {kind} is disabled",), kind="disabled")


@dataclass(frozen=True)
class Report:
    """Results for a whole project."""

    models: tuple[Entry, ...]
    tests: tuple[Entry, ...]
    others: tuple[Entry, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all moved, but for what is told alone."""
        entries = (*self.models, *self.tests, *(entry for entry in self.others if entry.kind not in TOLD_ONLY))
        return all(entry.status != LEFT_OUT for entry in entries)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as the command line prints it in JSON."""
        tests = [{**entry.to_dict(), "check": entry.check} for entry in self.tests]
        return {
            "success": self.is_whole,
            "models": [entry.to_dict() for entry in self.models],
            "tests": tests,
            "others": [entry.to_dict() for entry in self.others],
        }
