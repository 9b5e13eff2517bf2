"""The errors that a version meets in any storage: it is not known, has been overtaken, or cannot have its errors."""

from __future__ import annotations

from collections.abc import Iterable

from rivet_dagster.errors import RivetError, nearest


def unknown_version(table: str, version: str, state: str, known: Iterable[str] = ()) -> RivetError:
    """Return RVT-408 for a version that is none in that state, with the ``known`` ones that it may be meant for.

    >>> print(unknown_version("orders", "0000", "withheld").diagnostics[0].message)
    'orders' has no withheld version '0000'
    """
    return RivetError("RVT-408", f"'{table}' has no {state} version '{version}'{nearest(version, known)}")


def no_staged_version(table: str, version: str) -> RivetError:
    """Return RVT-418 for a version that is not staged any more."""
    return RivetError("RVT-418", f"'{table}' has no staged version {version} any more")


def published_since(table: str, version: str, identity: str) -> RivetError:
    """Return RVT-404 for a table that is not given up: a run has published it, maybe after it was taken over."""
    by = f" ({identity})" if identity else ""
    message = f"'{table}' is at the version {version}, which was published from here{by}: it is not given up any more"
    remedy = "Remove the joint, and use the table as it is; or bring older rows back with `rivet-dagster versions`."
    return RivetError("RVT-404", message, remediation=remedy)


ADOPT = (
    "Take it over with `rivet-dagster adopt JOINT`, or by `adopt: true` in the joint; or move it away, or choose "
    "another table name."
)
"""The remedy for a table that was not published from here, and can be taken over."""


def overtaken(table: str) -> RivetError:
    """Return RVT-405 for a table of which another version has been published since one was begun."""
    return RivetError("RVT-405", f"'{table}' has been published by another run since")


def moved_watermark(table: str, now: str | None, before: str) -> RivetError:
    """Return RVT-405 for a watermark that was to be set of the version ``before``, which another has replaced."""
    message = f"'{table}' is at {now or 'nothing'} now, and was at {before} a moment ago"
    return RivetError("RVT-405", message, remediation="Set it again, upon what is published now.")


def refuse_second_errors(subject: str, known: str | None, errors: str) -> None:
    """Raise RVT-404 if a version has an error table of another name than ``errors``."""
    if known not in (None, errors):
        raise RivetError("RVT-404", f"{subject} has the error table '{known}' already")


def other_table(errors: str, table: str) -> RivetError:
    """Return RVT-404 for a name of an error table that is the name of another table."""
    return RivetError("RVT-404", f"'{errors}' cannot be the error table of '{table}': it is another table")
