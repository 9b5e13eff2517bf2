"""Errors and warnings as compilation finds them; nothing stops at the first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.joint import Joint
from rivet_dagster.sql.dialect import SqlError


@dataclass
class Diagnostics:
    """What has been found so far."""

    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    doubtful: set[str] = field(default_factory=set)
    """Joints whose columns follow from what catalogs told earlier: what is wrong with these is a warning."""

    def about_columns(self, found: Diagnostic, doubtful: bool) -> None:
        """An error that follows from the columns of tables; a warning where these are ``doubtful``."""
        if doubtful:
            message = f"{found.message} (as the sources were when their catalogs were last asked)"
            self.warnings.append(replace(found, message=message))
        else:
            self.errors.append(found)

    def error(
        self, joint: Joint, code: str, message: str, key: str | None = None, remediation: str | None = None
    ) -> None:
        """An error at ``key`` of the joint's declaration."""
        found = joint.origin.diagnostic(code, message, joint=joint.name, key=key, remediation=remediation)
        self.about_columns(found, code in _ABOUT_COLUMNS and joint.name in self.doubtful)

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
        found = _in_sql(joint, code, message, line, remediation)
        self.about_columns(found, code in _ABOUT_COLUMNS and joint.name in self.doubtful)

    def sorted_errors(self) -> tuple[Diagnostic, ...]:
        """By file and line, each once."""
        unique = dict.fromkeys(self.errors)
        return tuple(sorted(unique, key=lambda d: (d.file or "", d.line or 0, d.joint or "", d.code, d.message)))


_ABOUT_COLUMNS = frozenset({"RVT-316", "RVT-322", "RVT-324", "RVT-327"})


def _in_sql(joint: Joint, code: str, message: str, line: int | None, remediation: str | None = None) -> Diagnostic:
    start = joint.origin.lines.get("sql")
    placed = start + line - 1 if start is not None and line is not None else joint.origin.line_of("sql")
    return Diagnostic(code, message, joint.name, joint.origin.file, placed, remediation)
