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

    def error(
        self, joint: Joint, code: str, message: str, key: str | None = None, remediation: str | None = None
    ) -> None:
        """An error at ``key`` of the joint's declaration."""
        found = joint.origin.diagnostic(code, message, joint=joint.name, key=key, remediation=remediation)
        self.errors.append(found)

    def warning(
        self, joint: Joint, code: str, message: str, key: str | None = None, remediation: str | None = None
    ) -> None:
        """A warning at ``key`` of the joint's declaration."""
        found = joint.origin.diagnostic(code, message, joint=joint.name, key=key, remediation=remediation)
        self.warnings.append(found)

    def sql_error(self, joint: Joint, code: str, error: SqlError) -> None:
        """An error at a line of the joint's SQL."""
        self.in_sql(joint, code, f"the SQL {error}", error.line)

    def sql_warning(self, joint: Joint, code: str, message: str, error: SqlError) -> None:
        """A warning at a line of the joint's SQL; ``message`` says what follows from the error."""
        self.warnings.append(_in_sql(joint, code, f"the SQL {error}; {message}", error.line))

    def in_sql(self, joint: Joint, code: str, message: str, line: int | None, remediation: str | None = None) -> None:
        """An error at a line, counted from 1, of the joint's SQL."""
        self.errors.append(_in_sql(joint, code, message, line, remediation))

    def sorted_errors(self) -> tuple[Diagnostic, ...]:
        """By file and line, each once."""
        unique = dict.fromkeys(self.errors)
        return tuple(sorted(unique, key=lambda d: (d.file or "", d.line or 0, d.joint or "", d.code, d.message)))


def _in_sql(joint: Joint, code: str, message: str, line: int | None, remediation: str | None = None) -> Diagnostic:
    start = joint.origin.lines.get("sql")
    placed = start + line - 1 if start is not None and line is not None else joint.origin.line_of("sql")
    return Diagnostic(code, message, joint.name, joint.origin.file, placed, remediation)
