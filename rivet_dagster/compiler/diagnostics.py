"""Errors and warnings of a compilation, collected so that all of them are reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.text_lines import Stretch, TextLocation, in_file, locate_line
from rivet_dagster.sql.parsing.dialect import SqlError

Lines = Sequence[Stretch]
"""The lines of a text that was rendered from a template; empty for any other text."""


@dataclass
class Diagnostics:
    """The errors and warnings so far."""

    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    doubtful: dict[str, str] = field(default_factory=dict)
    """Joints whose columns may be others in a run, and why: errors about their columns are only warnings."""
    doubtful_tables: dict[str, str] = field(default_factory=dict)
    """Joints of which readers may find other columns, those above and those with such a published table, and why."""

    def about_columns(self, diagnostic: Diagnostic, doubt: str | None) -> None:
        """Add an error that depends on the columns of tables, as a warning if there is a ``doubt`` about these."""
        if doubt is not None:
            self.warnings.append(replace(diagnostic, message=f"{diagnostic.message} ({doubt})"))
        else:
            self.errors.append(diagnostic)

    def error(
        self, joint: Joint, code: str, message: str, key: str | None = None, remediation: str | None = None
    ) -> None:
        """Add an error at ``key`` of the joint's declaration."""
        diagnostic = joint.origin.diagnostic(code, message, joint=joint.name, key=key, remediation=remediation)
        self.about_columns(diagnostic, self.doubtful.get(joint.name) if code in _ABOUT_COLUMNS else None)

    def warning(
        self, joint: Joint, code: str, message: str, key: str | None = None, remediation: str | None = None
    ) -> None:
        """Add a warning at ``key`` of the joint's declaration."""
        diagnostic = joint.origin.diagnostic(code, message, joint=joint.name, key=key, remediation=remediation)
        self.warnings.append(diagnostic)

    def sql_error(self, joint: Joint, code: str, error: SqlError, lines: Lines = ()) -> None:
        """Add an error at a line of the joint's SQL."""
        self.in_sql(joint, code, f"the SQL {error}", error.line, lines=lines)

    def sql_warning(self, joint: Joint, code: str, message: str, error: SqlError, lines: Lines = ()) -> None:
        """Add a warning at a line of the joint's SQL; ``message`` says what follows from the error."""
        location = None if error.line is None else locate_line(lines, error.line)
        self.warnings.append(_in_sql(joint, code, f"the SQL {error}; {message}", location))

    def in_sql(
        self,
        joint: Joint,
        code: str,
        message: str,
        line: int | None,
        remediation: str | None = None,
        lines: Lines = (),
    ) -> None:
        """Add an error at a line of the joint's SQL, counted from 1; ``lines`` are those of a rendered template."""
        self.in_template(joint, code, message, None if line is None else locate_line(lines, line), remediation)

    def in_template(
        self, joint: Joint, code: str, message: str, location: TextLocation | None, remediation: str | None = None
    ) -> None:
        """Add an error at a location of the joint's template."""
        diagnostic = _in_sql(joint, code, message, location, remediation)
        self.about_columns(diagnostic, self.doubtful.get(joint.name) if code in _ABOUT_COLUMNS else None)

    def sorted_errors(self) -> tuple[Diagnostic, ...]:
        """Return the distinct errors, sorted by file and line."""
        unique = dict.fromkeys(self.errors)
        return tuple(sorted(unique, key=lambda d: (d.file or "", d.line or 0, d.joint or "", d.code, d.message)))


_ABOUT_COLUMNS = frozenset({"RVT-316", "RVT-322", "RVT-324", "RVT-327"})


def _in_sql(
    joint: Joint, code: str, message: str, location: TextLocation | None, remediation: str | None = None
) -> Diagnostic:
    origin = joint.origin
    if location is None:
        return Diagnostic(code, message, joint.name, origin.file, origin.line_of("sql"), remediation)
    at = in_file(location, origin.file, origin.lines.get("sql"))
    line = origin.line_of("sql") if at.line is None else at.line
    return Diagnostic(code, f"{message}{at.note}", joint.name, at.file, line, remediation)
