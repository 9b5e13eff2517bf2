"""Errors and warnings as compilation finds them; nothing stops at the first."""

from __future__ import annotations

from dataclasses import dataclass, field

from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.joint import Joint
from rivet_dagster.sql.dialect import SqlError


@dataclass
class Diagnostics:
    """What has been found so far."""

    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def error(self, joint: Joint, code: str, message: str, key: str | None = None) -> None:
        """An error at ``key`` of the joint's declaration."""
        self.errors.append(joint.origin.diagnostic(code, message, joint=joint.name, key=key))

    def warning(self, joint: Joint, code: str, message: str, key: str | None = None) -> None:
        """A warning at ``key`` of the joint's declaration."""
        self.warnings.append(joint.origin.diagnostic(code, message, joint=joint.name, key=key))

    def sql_error(self, joint: Joint, code: str, message: str, error: SqlError, key: str = "sql") -> None:
        """An error at a line of the joint's SQL."""
        start = joint.origin.lines.get(key)
        line = start + error.line - 1 if start is not None and error.line is not None else joint.origin.line_of(key)
        self.errors.append(Diagnostic(code, message, joint.name, joint.origin.file, line))

    def sorted_errors(self) -> tuple[Diagnostic, ...]:
        """By file and line, each once."""
        unique = dict.fromkeys(self.errors)
        return tuple(sorted(unique, key=lambda d: (d.file or "", d.line or 0, d.joint or "", d.code, d.message)))
