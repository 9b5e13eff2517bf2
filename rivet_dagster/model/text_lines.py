"""The lines of a rendered text: from which file, line and macro each of them came.

The position of a declaration in a file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rivet_dagster.errors import Diagnostic

_MOST_CALLS = 3
"""The most calls that a message tells besides that of the template itself."""


@dataclass(frozen=True, slots=True)
class MacroCall:
    """A call of ``macro`` on a ``line`` of a file; ``file`` is None for the template itself."""

    macro: str
    line: int
    file: str | None = None


@dataclass(frozen=True, slots=True)
class TextLocation:
    """A line of a template, counted from 1 in its own text, or of the ``file`` of a macro, counted in that file.

    ``calls`` are the calls that led there, the innermost first; a line of the template itself has none.
    """

    line: int
    file: str | None = None
    calls: tuple[MacroCall, ...] = ()

    @property
    def template_line(self) -> int:
        """The line of the template itself: the one that calls the macro."""
        return self.calls[-1].line if self.calls else self.line


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines of a rendered text, from line ``first`` on, which come from ``place`` and the lines below it."""

    first: int
    place: TextLocation


def locate_line(lines: Sequence[Stretch], line: int) -> TextLocation:
    """Return the location from which a line of the rendered text came; without ``lines`` the text is no rendered one.

    >>> lines = (Stretch(1, TextLocation(1)), Stretch(3, TextLocation(8)))
    >>> [locate_line(lines, line).line for line in (1, 2, 3, 4)], locate_line((), 4).line
    ([1, 2, 8, 9], 4)
    """
    index = bisect_right(lines, line, key=lambda stretch: stretch.first) - 1
    if index < 0:
        return TextLocation(line)
    stretch = lines[index]
    return replace(stretch.place, line=stretch.place.line + line - stretch.first)


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A line of a file, None where it is not known, and the end of a message that tells the macro there, if any."""

    file: str | None
    line: int | None
    note: str = ""


def in_file(location: TextLocation, file: str | None, first: int | None) -> FileLocation:
    """Return where a location is, for a template whose text begins on line ``first`` of ``file``.

    >>> in_file(TextLocation(2), "joints/a.sql", 3)
    FileLocation(file='joints/a.sql', line=4, note='')
    >>> in_file(TextLocation(7, "macros/m.sql", (MacroCall("cents", 2),)), "joints/a.sql", 3)
    FileLocation(file='macros/m.sql', line=7, note=" (in the macro 'cents', called at joints/a.sql:4)")
    """
    return FileLocation(*_position(location.file, location.line, file, first), _note(location.calls, file, first))


def _position(at: str | None, line: int, file: str | None, first: int | None) -> tuple[str | None, int | None]:
    if at is not None:
        return at, line
    return file, None if first is None else first + line - 1


def _note(calls: tuple[MacroCall, ...], file: str | None, first: int | None) -> str:
    if not calls:
        return ""
    shown = [f"in the macro '{calls[0].macro}'"]
    for number, call in enumerate(calls):
        if _MOST_CALLS <= number < len(calls) - 1:
            shown += ["..."] if number == _MOST_CALLS else []
            continue
        at, line = _position(call.file, call.line, file, first)
        where = (
            f"line {call.line} of the template" if line is None else f"line {line}" if at is None else f"{at}:{line}"
        )
        by = f" by '{calls[number + 1].macro}'" if number + 1 < len(calls) else ""
        shown.append(f"called at {where}{by}")
    return f" ({', '.join(shown)})"


@dataclass(frozen=True)
class Origin:
    """A file (relative to the project, with forward slashes) and the lines of its keys, counted from 1.

    A key of a mapping under another key is named with a dot between the two.
    A declaration made in Python has no file.
    """

    file: str | None = None
    line: int | None = None
    lines: Mapping[str, int] = field(default_factory=dict)

    def line_of(self, key: str | None) -> int | None:
        """Return the line of ``key``, else that of the whole declaration.

        >>> Origin("a.yaml", 1, {"options": 3, "options.retries": 4}).line_of("options.timeout")
        3
        """
        if key is None:
            return self.line
        return self.lines.get(key, self.lines.get(key.partition(".")[0], self.line))

    def diagnostic(
        self,
        code: str,
        message: str,
        *,
        joint: str | None = None,
        key: str | None = None,
        remediation: str | None = None,
    ) -> Diagnostic:
        """Return a diagnostic that points at ``key`` of this declaration."""
        return Diagnostic(code, message, joint, self.file, self.line_of(key), remediation)
