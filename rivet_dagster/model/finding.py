"""What an examination found: one thing that is in order, doubtful or broken."""

from __future__ import annotations

from dataclasses import dataclass

from rivet_dagster.errors import RivetError
from rivet_dagster.redaction import redacted

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Finding:
    """``subject`` is what was looked at, ``text`` how it is, ``remedy`` what to do about it unless that is OK.

    ``code`` is that of the error which a run would meet; whatever has the status FAIL has one. No secret stands in it.
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
    """What needs nothing."""
    return Finding(OK, subject, text)


def doubtful(subject: str, text: str, remedy: str) -> Finding:
    """What runs, and could go wrong."""
    return Finding(WARN, subject, text, remedy)


def broken(subject: str, error: RivetError) -> tuple[Finding, ...]:
    """What ends runs with ``error``, one finding for each thing that it tells.

    >>> broken("profile", RivetError("RVT-106", "no profile 'prod'", file="profiles.yaml"))[0].text
    "profiles.yaml: no profile 'prod'"
    """
    return tuple(
        Finding(FAIL, subject, str(told).partition("\n    ")[0].partition(" ")[2], told.remediation, told.code)
        for told in error.diagnostics
    )
