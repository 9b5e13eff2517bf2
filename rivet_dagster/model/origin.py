"""The position of a declaration in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rivet_dagster.errors import Diagnostic


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
