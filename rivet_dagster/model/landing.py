"""Landing zones: sources of which each run reads only the files that the reader has not consumed yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rivet_dagster.model import convert

LANDING_OPTIONS = ("landing", "archive")

_SELECTING = ("pathglobfilter", "modifiedbefore", "modifiedafter")
"""Reader options with which an engine would skip files, although these would count as consumed."""


@dataclass(frozen=True)
class Landing:
    """The options of a landing zone; with ``archive`` its files are moved away once every reader has consumed them."""

    archive: bool = False


def landing_options(options: Mapping[str, Any]) -> tuple[Landing | None, dict[str, Any]]:
    """Return the landing options of a source, None if it is no landing zone, and its other options. Raise ValueError.

    >>> landing_options({"landing": True, "sep": ";"})
    (Landing(archive=False), {'sep': ';'})
    """
    given = {key: _boolean(key, options[key]) for key in LANDING_OPTIONS if key in options}
    others = {key: value for key, value in options.items() if key not in LANDING_OPTIONS}
    return (Landing(given.get("archive", False)) if given.get("landing") else None), others


def wrong_landing(options: Mapping[str, Any], is_source: bool, limit: int | None) -> list[str]:
    """Return what is wrong with the options of a landing zone, as sentences. Raise ValueError."""
    given = [key for key in LANDING_OPTIONS if key in options]
    if not is_source:
        return [f"the option `{key}` belongs to a source" for key in given]
    landing, others = landing_options(options)
    if landing is None:
        return ["the option `archive` needs `landing: true`"] if options.get("archive") else []
    errors = []
    if limit is not None:
        errors.append("a landing zone has no `limit`: what it leaves out would never be read")
    selecting = [key for key in others if key.lower() in _SELECTING]
    return errors + [
        f"a landing zone has no `{key}`: files that it leaves out would count as read" for key in selecting
    ]


def _boolean(key: str, value: Any) -> bool:
    try:
        return convert.boolean(value)
    except ValueError as error:
        raise convert.WrongKeyError(f"has a wrong `{key}`: it {error}", key) from None
