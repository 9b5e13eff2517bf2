"""The tag by which a run asks for a full refresh, and the metadata of what it materializes."""

from __future__ import annotations

from typing import Any

import dagster as dg

from rivet_dagster.definitions.runs.continued import continued_run
from rivet_dagster.errors import RivetError

FULL_REFRESH = "rivet/full_refresh"
"""The tag of a run that replaces its targets as a first run would, and the key in the metadata of these."""

_VALUES = {"true": True, "false": False}


def full_refresh_tags(asked: bool) -> dict[str, str]:
    """Return the tags of a run, which is a full refresh if ``asked``."""
    return {FULL_REFRESH: "true"} if asked else {}


def full_refresh_metadata(asked: bool) -> dict[str, Any]:
    """Return the metadata of a materialization."""
    return {FULL_REFRESH: True} if asked else {}


def is_full_refresh(run: dg.DagsterRun, instance: dg.DagsterInstance) -> bool:
    """Return whether a run is a full refresh, by its tag, or else by that of the run that it continues.

    Dagster copies the tags of a run that is re-executed in the UI, but not of one that is re-executed from Python.
    Raises RVT-104 if the tag is neither true nor false.
    """
    continued: dg.DagsterRun | None = run
    while continued is not None and FULL_REFRESH not in continued.tags:
        continued = continued_run(continued, instance)
    value = continued.tags[FULL_REFRESH] if continued is not None else "false"
    if value.lower() not in _VALUES:
        raise RivetError("RVT-104", f"the tag `{FULL_REFRESH}` of a run is true or false, not '{value}'")
    return _VALUES[value.lower()]
