"""Landing zones: sources whose readers each get the files that they have not read yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rivet_dagster.model import convert

LANDING_OPTIONS = ("landing", "archive")

_SELECTING = ("pathglobfilter", "modifiedbefore", "modifiedafter")
"""Reader options by which an engine passes over files that would be taken for read."""


@dataclass(frozen=True)
class Landing:
    """That a source is a landing zone; with ``archive`` its files are moved away once every reader has read them."""

    archive: bool = False


def landing_options(options: Mapping[str, Any]) -> tuple[Landing | None, dict[str, Any]]:
    """Return whether a source is a landing zone, and its other options; raises ValueError.

    >>> landing_options({"landing": True, "sep": ";"})
    (Landing(archive=False), {'sep': ';'})
    """
    found = {key: _boolean(key, options[key]) for key in LANDING_OPTIONS if key in options}
    others = {key: value for key, value in options.items() if key not in LANDING_OPTIONS}
    return (Landing(found.get("archive", False)) if found.get("landing") else None), others


def wrong_landing(options: Mapping[str, Any], is_source: bool, limit: int | None) -> list[str]:
    """What is wrong with the options of a landing zone, as sentences; raises ValueError."""
    given = [key for key in LANDING_OPTIONS if key in options]
    if not is_source:
        return [f"the option `{key}` belongs to a source" for key in given]
    landing, others = landing_options(options)
    if landing is None:
        return ["the option `archive` needs `landing: true`"] if options.get("archive") else []
    found = []
    if limit is not None:
        found.append("a landing zone has no `limit`: what it leaves out would never be read")
    selecting = [key for key in others if key.lower() in _SELECTING]
    return found + [f"a landing zone has no `{key}`: files that it leaves out would count as read" for key in selecting]


def _boolean(key: str, value: Any) -> bool:
    try:
        return convert.boolean(value)
    except ValueError as error:
        raise convert.WrongKeyError(f"has a wrong `{key}`: it {error}", key) from None
