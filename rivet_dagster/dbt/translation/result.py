"""The result of a translation: the files of the new project, and where all of them came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rivet_dagster.dbt.declared import Place
from rivet_dagster.dbt.report import Report


@dataclass(frozen=True)
class Refused:
    """Refusals by the compiler of an earlier translation: reasons by joint, by joint and check, and by macro."""

    joints: Mapping[str, list[str]] = field(default_factory=dict)
    checks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Translation:
    """The files of the new project by path, those that are copied from the old one, and the report.

    ``joint_files`` are the joints by their files, ``check_lines`` the checks by file and line, or line 0 for all of a
    file, ``macro_lines`` the macros by the line on which each one begins, ``origins`` the places that the lines of a
    joint's file came from. ``unsaid`` returns what is wrong with joints that compile.
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
    unsaid: Callable[[], dict[str, list[str]]]

    def macro_at(self, file: str, line: int) -> str | None:
        """Return the macro that a line of a file of macros is in."""
        lines = self.macro_lines.get(file, {})
        before = [begin for begin in lines if begin <= max(line, 1)]
        return lines[max(before)] if before else next(iter(lines.values()), None)

    def original_line(self, file: str, line: int | None) -> Place | None:
        """Return where a line of a joint's file was in the dbt project; None for its annotations."""
        first, source, lines = self.origins.get(file, (0, "", ()))
        position = (line or 0) - first
        return Place(source, lines[position]) if line is not None and 0 <= position < len(lines) else None
