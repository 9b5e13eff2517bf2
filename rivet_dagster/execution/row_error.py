"""Errors of a run at their places: rows that could not be evaluated, and what the engine or a catalog raises.

A ``RowError`` has an entry for each site. Under ``row_values: false`` texts of engines and Python functions lose the
values of rows that they may quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rivet_dagster.compiler.group_query import FusedQuery
from rivet_dagster.compiler.joints import CompiledJoint, QueryJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import Diagnostic, EngineUnusable, RivetError, RowsFailed
from rivet_dagster.execution.results import SiteErrors
from rivet_dagster.model.convert import shorten_text
from rivet_dagster.sql.fusion import locate

_LONGEST = 200
"""The maximum length of a quoted message."""


@dataclass(frozen=True)
class SiteDiagnostic(Diagnostic):
    """The row errors of one expression with one condition; ``samples`` are rows of the operator's input.

    >>> print(site_diagnostic(SiteErrors("DIVIDE_BY_ZERO", "net", "joints/net.sql", 3, "a / b", 2)))
    RVT-520 joints/net.sql:3: joint net: 2 rows could not be evaluated: [DIVIDE_BY_ZERO] in a / b
        Correct the data or the expressions, or publish the other rows with `on_error: quarantine`.
    """

    condition: str = ""
    expression: str = ""
    count: int = 0
    samples: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as the command line prints them in JSON."""
        site = {"condition": self.condition, "expression": self.expression, "count": self.count}
        return super().to_dict() | site | {"samples": [dict(sample) for sample in self.samples]}


class RowError(RowsFailed):
    """RVT-520: rows could not be evaluated, with a diagnostic for each of ``sites``."""

    sites: tuple[SiteErrors, ...] = ()

    @classmethod
    def at(cls, sites: Iterable[SiteErrors], others: Iterable[Diagnostic] = ()) -> RowError:
        """Return the error with all ``sites`` (at least one); ``others`` are errors that have none."""
        known = tuple(sites)
        error = cls.__new__(cls, "RVT-520")
        error.sites = known
        error.diagnostics = (*map(site_diagnostic, known), *others)
        Exception.__init__(error, "\n".join(str(diagnostic) for diagnostic in error.diagnostics))
        return error

    @property
    def others(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that have no site."""
        return self.diagnostics[len(self.sites) :]

    def __reduce__(self) -> tuple[Any, ...]:
        return RowError.at, (self.sites, self.others)


def site_diagnostic(site: SiteErrors, remediation: str | None = None) -> SiteDiagnostic:
    """Return the errors of a site as a diagnostic, whose text quotes the message of one of its rows, if it has any."""
    rows = "1 row" if site.count == 1 else f"{site.count:,} rows"
    message = " ".join(site.message.split())
    quoted = f": {shorten_text(message, _LONGEST)}" if message else ""
    return SiteDiagnostic(
        code="RVT-520",
        message=f"{rows} could not be evaluated: [{site.condition}] in {site.expression}{quoted}",
        joint=site.joint,
        file=site.file,
        line=site.line,
        remediation=remediation,
        condition=site.condition,
        expression=site.expression,
        count=site.count,
        samples=site.samples,
    )


_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]*\]")
_OF_DECLARATIONS = "SQLSTATE: 42"
"""Spark's class of errors in the text of a query, which are found before any row is read."""

_QUOTING = frozenset({"RVT-503", "RVT-504", "RVT-520"})


def text_without_values(text: str, otherwise: str = "it failed") -> str:
    """Return the part of a message that certainly contains no value: the name of Spark's error condition, if any.

    >>> text_without_values("[CAST_INVALID_INPUT] The value 'ann@example.com' of the type STRING cannot be cast")
    '[CAST_INVALID_INPUT]; the rest of the message may hold values of rows (`row_values: false`)'
    """
    condition = _CONDITION.search(text)
    safe = condition[0] if condition else otherwise
    return f"{safe}; the rest of the message may hold values of rows (`row_values: false`)"


def error_without_values(error: RivetError) -> RivetError:
    """Return the error without values, if its text is that of an engine or a user's function that was reading rows."""
    if isinstance(error, RowError):
        others = [_without_values(diagnostic, "it failed") for diagnostic in error.others]
        return RowError.at([site.without_values() for site in error.sites], others)
    if _OF_DECLARATIONS in str(error.__cause__):
        return error
    cause = "it failed" if error.__cause__ is None else type(error.__cause__).__name__
    return RivetError.of(_without_values(diagnostic, cause) for diagnostic in error.diagnostics)


def _without_values(diagnostic: Diagnostic, cause: str) -> Diagnostic:
    if diagnostic.code not in _QUOTING:
        return diagnostic
    message = text_without_values(diagnostic.message, cause)
    return Diagnostic(
        diagnostic.code, message, diagnostic.joint, diagnostic.file, diagnostic.line, diagnostic.remediation
    )


def locate_in_query(error: RivetError, query: FusedQuery, assembly: CompiledAssembly) -> RivetError:
    """Return an error whose line is one of the text of ``query``, at the joint and the line in the joint's file."""
    first = error.diagnostics[0]
    location = locate(query.ctes, first.line) if first.joint is None and first.line is not None else None
    name, line_of_text = location if location is not None else (query.result, 1)
    if all(joint.name != name for joint in assembly.joints):
        return error  # of a part of the query that is no joint's own text, such as the errors of rows
    joint = assembly.joint(name)
    if location is None or not isinstance(joint, QueryJoint):
        return locate_at_joint(error, joint)
    at = joint.locate(line_of_text, dict(query.ctes)[name])
    message = f"{first.message}{at.note}"
    return RivetError(first.code, message, joint=name, file=at.file, line=at.line, remediation=first.remediation)


def locate_at_joint(error: RivetError, joint: CompiledJoint) -> RivetError:
    """Return the error with the joint, its file and line, unless it is an error of the engine or the configuration."""
    first = error.diagnostics[0]
    if first.joint is not None or isinstance(error, EngineUnusable) or error.is_configuration:
        return error
    return RivetError(
        first.code, first.message, joint=joint.name, file=joint.file, line=joint.line, remediation=first.remediation
    )


@contextmanager
def locating_errors(joint: CompiledJoint) -> Iterator[None]:
    """Add the joint, its file and line to RivetErrors of the block that name no joint."""
    try:
        yield
    except RivetError as error:
        raise locate_at_joint(error, joint) from error.__cause__
