"""Errors and warnings of a compilation, collected so that all of them are reported at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.joint import Joint
from rivet_dagster.sql.dialect import SqlError


@dataclass
class Diagnostics:
    """The errors and warnings so far."""

    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    doubtful: set[str] = field(default_factory=set)
    """Joints whose columns come from an earlier introspection: errors about their columns are only warnings."""

    def about_columns(self, diagnostic: Diagnostic, doubtful: bool) -> None:
        """Add an error that depends on the columns of tables, as a warning if these are ``doubtful``."""
        if doubtful:
            message = f"{diagnostic.message} (as the sources were when their catalogs were last asked)"
            self.warnings.append(replace(diagnostic, message=message))
        else:
            self.errors.append(diagnostic)

    def error(
        self, joint: Joint, code: str, message: str, key: str | None = None, remediation: str | None = None
    ) -> None:
        """Add an error at ``key`` of the joint's declaration."""
        diagnostic = joint.origin.diagnostic(code, message, joint=joint.name, key=key, remediation=remediation)
        self.about_columns(diagnostic, code in _ABOUT_COLUMNS and joint.name in self.doubtful)

    def warning(
        self, joint: Joint, code: str, message: str, key: str | None = None, remediation: str | None = None
    ) -> None:
        """Add a warning at ``key`` of the joint's declaration."""
        diagnostic = joint.origin.diagnostic(code, message, joint=joint.name, key=key, remediation=remediation)
        self.warnings.append(diagnostic)

    def sql_error(self, joint: Joint, code: str, error: SqlError) -> None:
        """Add an error at a line of the joint's SQL."""
        self.in_sql(joint, code, f"the SQL {error}", error.line)

    def sql_warning(self, joint: Joint, code: str, message: str, error: SqlError) -> None:
        """Add a warning at a line of the joint's SQL; ``message`` says what follows from the error."""
        self.warnings.append(_in_sql(joint, code, f"the SQL {error}; {message}", error.line))

    def in_sql(self, joint: Joint, code: str, message: str, line: int | None, remediation: str | None = None) -> None:
        """Add an error at a line of the joint's SQL, counted from 1."""
        diagnostic = _in_sql(joint, code, message, line, remediation)
        self.about_columns(diagnostic, code in _ABOUT_COLUMNS and joint.name in self.doubtful)

    def sorted_errors(self) -> tuple[Diagnostic, ...]:
        """Return the distinct errors, sorted by file and line."""
        unique = dict.fromkeys(self.errors)
        return tuple(sorted(unique, key=lambda d: (d.file or "", d.line or 0, d.joint or "", d.code, d.message)))


_ABOUT_COLUMNS = frozenset({"RVT-316", "RVT-322", "RVT-324", "RVT-327"})


def _in_sql(joint: Joint, code: str, message: str, line: int | None, remediation: str | None = None) -> Diagnostic:
    start = joint.origin.lines.get("sql")
    file_line = start + line - 1 if start is not None and line is not None else joint.origin.line_of("sql")
    return Diagnostic(code, message, joint.name, joint.origin.file, file_line, remediation)
