"""The result of an import, and its report: for everything in the dbt project what became of it, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.dbt.declared import DbtLocation

UNCHANGED, CHANGED, COMPILED, LEFT_OUT, NOT_NEEDED = "unchanged", "changed", "compiled", "left_out", "not_needed"

REPORTED_ONLY = frozenset(
    "macro docs exposure unit_test hook grants disabled materialization group variable profile file_format link "
    "setting selector macro_description".split()
)
"""Kinds of which one that is left out is told, but does not make the import a partial one."""


@dataclass(frozen=True)
class ReportEntry:
    """Result for one model, test or other thing; ``check`` is that of a test, ``kind`` that of another thing."""

    name: str
    location: DbtLocation
    status: str
    joint: str | None = None
    reasons: tuple[str, ...] = ()
    check: str | None = None
    kind: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as the command line prints it in JSON."""
        entry: dict[str, Any] = {"name": self.name}
        if self.kind is not None:
            entry["kind"] = self.kind
        entry |= {"file": self.location.file, "line": self.location.line, "joint": self.joint}
        return entry | {"status": self.status, "reasons": list(self.reasons)}


def disabled_entry(name: str, location: DbtLocation, kind: str) -> ReportEntry:
    """Return what is told of a node that is disabled."""
    return ReportEntry(name, location, LEFT_OUT, reasons=(f"the {kind} is disabled",), kind="disabled")


@dataclass(frozen=True)
class Report:
    """Results for a whole project."""

    models: tuple[ReportEntry, ...]
    tests: tuple[ReportEntry, ...]
    others: tuple[ReportEntry, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all moved, but for what is told alone."""
        entries = (*self.models, *self.tests, *(entry for entry in self.others if entry.kind not in REPORTED_ONLY))
        return all(entry.status != LEFT_OUT for entry in entries)

    def with_others(self, entries: Iterable[ReportEntry]) -> Report:
        """Return the report with further other things."""
        others = sorted((*self.others, *entries), key=lambda each: (each.location.file, each.location.line, each.name))
        return Report(self.models, self.tests, tuple(others))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as the command line prints it in JSON."""
        tests = [{**entry.to_dict(), "check": entry.check} for entry in self.tests]
        return {
            "success": self.is_whole,
            "models": [entry.to_dict() for entry in self.models],
            "tests": tests,
            "others": [entry.to_dict() for entry in self.others],
        }


@dataclass(frozen=True)
class Refused:
    """Refusals by the compiler of an earlier translation: reasons by joint, by joint and check, and by macro.

    ``imported`` are variables of the environment, by their names in rivet.yaml, that cannot be values of a run: they
    have those of the import.
    """

    joints: Mapping[str, list[str]] = field(default_factory=dict)
    checks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)
    imported: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TranslatedUnitTest:
    """The files of a test of the new project, the first of which is the test itself, and what is told of it."""

    entry: ReportEntry
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TranslatedProject:
    """The files of the new project by path, those that are copied from the old one, and the report.

    ``joint_files`` are the joints by their files, ``check_lines`` the checks by file and line, or line 0 for all of a
    file, ``macro_lines`` the macros by the line on which each one begins, ``origins`` the places that the lines of a
    joint's file came from. ``unsaid`` returns what is wrong with joints that compile. ``importable`` are the variables
    of which a run knows the value, but the import as well. ``unit_tests`` yields the tests that fit the compiled plan.
    """

    files: Mapping[str, str]
    copies: Mapping[str, str]
    report: Report
    joint_files: Mapping[str, str]
    check_lines: Mapping[tuple[str, int], tuple[str, str]]
    macro_lines: Mapping[str, Mapping[int, str]]
    origins: Mapping[str, tuple[int, str, Sequence[int]]]
    variables: tuple[str, ...]
    folders: tuple[str, ...]
    unsaid: Callable[[], Refused]
    unit_tests: Callable[[CompiledAssembly], Iterable[TranslatedUnitTest]]
    importable: frozenset[str] = frozenset()

    def macro_at(self, file: str, line: int) -> str | None:
        """Return the macro that a line of a file of macros is in."""
        lines = self.macro_lines.get(file, {})
        before = [begin for begin in lines if begin <= max(line, 1)]
        return lines[max(before)] if before else next(iter(lines.values()), None)

    def original_line(self, file: str, line: int | None) -> DbtLocation | None:
        """Return where a line of a joint's file was in the dbt project; None for its annotations."""
        first, source, lines = self.origins.get(file, (0, "", ()))
        position = (line or 0) - first
        return DbtLocation(source, lines[position]) if line is not None and 0 <= position < len(lines) else None
