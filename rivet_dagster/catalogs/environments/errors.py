"""Errors of environments, which each kind of catalog tells in the same words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rivet_dagster.errors import RivetError


def missing(name: str) -> RivetError:
    """Return RVT-415 for an environment that does not exist."""
    return RivetError("RVT-415", f"there is no environment '{name}'")


def merged(name: str) -> RivetError:
    """Return RVT-415 for an environment that has been merged."""
    remedy = "Take another name: a merged environment is over."
    return RivetError("RVT-415", f"the environment '{name}' has been merged", remediation=remedy)


def half_merged(name: str) -> RivetError:
    """Return RVT-415 for an environment whose merge has begun."""
    remedy = f"Finish the merge: rivet-dagster environment merge {name}"
    return RivetError("RVT-415", f"the environment '{name}' is being merged", remediation=remedy)


def of_another_profile(name: str, profile: str, wanted: str) -> RivetError:
    """Return RVT-416 for an environment of ``profile`` that is to be used with the ``wanted`` one."""
    return RivetError("RVT-416", f"the environment '{name}' is one of the profile '{profile}', not of '{wanted}'")


def written_by_a_run(name: str) -> RivetError:
    """Return RVT-417 for an environment in which a run is alive."""
    remedy = "Wait until it has ended; a dead one counts for a minute."
    return RivetError("RVT-417", f"a run is writing in the environment '{name}'", remediation=remedy)


def not_built(name: str, table: str) -> RivetError:
    """Return RVT-417 for the watermark of a table that has not been built in an environment."""
    message = f"'{table}' has not been built in the environment '{name}'"
    return RivetError("RVT-417", message, remediation="Run it there first; or set the watermark of the base.")


def moved(name: str, tables: Iterable[str]) -> RivetError:
    """Return RVT-405 for tables whose base is not the one any more that an environment has built them upon."""
    message = f"the base of {', '.join(tables)} has moved since it was first written in the environment '{name}'"
    remedy = "Build it upon the base as it is now: drop the environment, and run it again under its name."
    return RivetError("RVT-405", message, remediation=remedy)


def changed_on_both_sides(name: str, changed: Mapping[str, Iterable[str]]) -> RivetError:
    """Return RVT-405 for tables of which an environment and its base have changed the same in different ways."""
    tables = "; ".join(f"of {table} {', '.join(what)}" for table, what in changed.items())
    message = f"both the environment '{name}' and its base have changed since it was first written there: {tables}"
    remedy = "Build it upon the base as it is now: drop the environment, and run it again under its name."
    return RivetError("RVT-405", message, remediation=remedy)
