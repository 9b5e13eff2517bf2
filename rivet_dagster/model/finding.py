"""The findings of an examination: each is in order, doubtful or broken."""

from __future__ import annotations

from dataclasses import dataclass

from rivet_dagster.errors import RivetError
from rivet_dagster.secrets.redaction import redacted

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Finding:
    """A finding: ``subject`` is what was examined, ``text`` its state, ``remedy`` what to do unless it is in order.

    ``code`` is the code of the error that a run would raise; a finding with the status FAIL has one. Texts are
    redacted.
    """

    status: str
    subject: str
    text: str
    remedy: str | None = None
    code: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", redacted(self.text))
        object.__setattr__(self, "remedy", self.remedy and redacted(self.remedy))


def in_order(subject: str, text: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(OK, subject, text)


def doubtful(subject: str, text: str, remedy: str) -> Finding:
    """Return a finding about something that works, but may cause errors."""
    return Finding(WARN, subject, text, remedy)


def broken(subject: str, error: RivetError) -> tuple[Finding, ...]:
    """Return the findings of an error that would end a run, one for each of its diagnostics.

    >>> broken("profile", RivetError("RVT-106", "no profile 'prod'", file="profiles.yaml"))[0].text
    "profiles.yaml: no profile 'prod'"
    """
    return tuple(
        Finding(
            FAIL,
            subject,
            str(diagnostic).partition("\n    ")[0].partition(" ")[2],
            diagnostic.remediation,
            diagnostic.code,
        )
        for diagnostic in error.diagnostics
    )
