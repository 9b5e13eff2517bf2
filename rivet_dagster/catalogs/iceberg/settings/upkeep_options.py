"""The option ``upkeep`` of an Iceberg catalog: which steps, and the ages and sizes that they go by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import nearest
from rivet_dagster.model import convert

EXPIRE, REWRITE, MANIFESTS, ORPHANS = STEPS = (
    "expire_snapshots",
    "rewrite_data_files",
    "rewrite_manifests",
    "remove_orphan_files",
)

LEAST_ORPHAN_AGE = timedelta(days=1)
"""Iceberg's own limit: a younger file may be that of a write which is not committed yet."""


@dataclass(frozen=True)
class ExpireSnapshots:
    """Remove snapshots older than ``older_than``, but not those of the last ``retain_last`` versions."""

    older_than: timedelta = timedelta(days=7)
    retain_last: int = 5


@dataclass(frozen=True)
class RemoveOrphanFiles:
    """Remove files that no snapshot has and that are older than ``older_than``."""

    older_than: timedelta = timedelta(days=3)


@dataclass(frozen=True)
class UpkeepOptions:
    """The steps of the upkeep of a table, None or False for those that are off.

    ``rewrite_data_files`` are Iceberg's own options of that step.
    """

    expire_snapshots: ExpireSnapshots | None = ExpireSnapshots()
    remove_orphan_files: RemoveOrphanFiles | None = RemoveOrphanFiles()
    rewrite_data_files: Mapping[str, str] | None = field(default_factory=dict)
    rewrite_manifests: bool = True


def wrong_upkeep(value: Any) -> str | None:
    """Return what is wrong with the value of ``upkeep``, the end of a sentence that begins with it; None if nothing.

    >>> wrong_upkeep({"expire_snapshot": False})
    "has the unknown key 'expire_snapshot'; did you mean 'expire_snapshots'?"
    >>> wrong_upkeep({"expire_snapshots": {"retain_last": 0}})
    'has a wrong `expire_snapshots.retain_last`: it must be a whole number of at least 1, not 0'
    """
    return "; ".join(_wrong(value)) or None


def parse_upkeep(value: Any) -> UpkeepOptions | None:
    """Return the options of a valid ``upkeep``, None if it is off.

    >>> options = parse_upkeep({"rewrite_manifests": False, "expire_snapshots": {"retain_last": 2}})
    >>> options.expire_snapshots
    ExpireSnapshots(older_than=datetime.timedelta(days=7), retain_last=2)
    >>> options.rewrite_manifests, parse_upkeep(None).rewrite_manifests
    (False, True)
    """
    if value is False:
        return None
    steps = {} if value in (None, True) else dict(value)
    expire, orphans = _options(steps.get(EXPIRE)), _options(steps.get(ORPHANS))
    rewrite, manifests = _options(steps.get(REWRITE)), steps.get(MANIFESTS)
    return UpkeepOptions(
        None if expire is None else ExpireSnapshots(**_converted(expire, _EXPIRE)),
        None if orphans is None else RemoveOrphanFiles(**_converted(orphans, _ORPHANS)),
        None if rewrite is None else _converted(rewrite, _REWRITE),
        manifests is not False,
    )


def _options(value: Any) -> Mapping[str, Any] | None:
    """Return the options of a step, None if it is off."""
    if value is False:
        return None
    return value if isinstance(value, Mapping) else {}


def _converted(options: Mapping[str, Any], known: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    return {key: known[key](value) for key, value in options.items()}


def _wrong(value: Any) -> Iterator[str]:
    if value in (None, True, False) or is_unexpanded(value):
        return
    if not isinstance(value, Mapping):
        yield f"must be a mapping of {', '.join(STEPS)}, or false, not {convert.show(value)}"
        return
    for step, options in value.items():
        if step not in STEPS:
            yield f"has the unknown key '{step}'{nearest(str(step), STEPS)}"
        elif isinstance(options, bool) or options is None or is_unexpanded(options):
            continue
        elif step == MANIFESTS or not isinstance(options, Mapping):
            wanted = "true or false" if step == MANIFESTS else "a mapping, true or false"
            yield f"has a wrong `{step}`: it must be {wanted}, not {convert.show(options)}"
        else:
            yield from _wrong_options(step, options)


def _wrong_options(step: str, options: Mapping[str, Any]) -> Iterator[str]:
    known = _KNOWN[step]
    for key, value in options.items():
        if key not in known:
            yield f"has the unknown key '{step}.{key}'{nearest(str(key), list(known))}"
        elif not is_unexpanded(value):
            try:
                known[key](value)
            except ValueError as error:
                yield f"has a wrong `{step}.{key}`: it {error}"


def _age(value: Any) -> timedelta:
    return timedelta(seconds=convert.seconds(value))


def _orphan_age(value: Any) -> timedelta:
    age = _age(value)
    if age < LEAST_ORPHAN_AGE:
        reason = "since a younger file may belong to a write that is not committed yet"
        raise ValueError(f"must be at least 1d, {reason}, not {convert.show(value)}")
    return age


def _whole(least: int) -> Callable[[Any], str]:
    to_whole = convert.whole(least)
    return lambda value: str(to_whole(value))


def _ratio(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ValueError(f"must be a number above 0, at most 1, not {convert.show(value)}")
    return str(value)


def _boolean(value: Any) -> str:
    return convert.setting(convert.boolean(value))


_REWRITE: Mapping[str, Callable[[Any], str]] = {
    "target-file-size-bytes": _whole(1),
    "min-file-size-bytes": _whole(0),
    "max-file-size-bytes": _whole(1),
    "min-input-files": _whole(1),
    "max-file-group-size-bytes": _whole(1),
    "max-file-group-input-files": _whole(1),
    "max-files-to-rewrite": _whole(1),
    "delete-file-threshold": _whole(1),
    "delete-ratio-threshold": _ratio,
    "rewrite-all": _boolean,
    "max-concurrent-file-group-rewrites": _whole(1),
    "partial-progress.enabled": _boolean,
    "partial-progress.max-commits": _whole(1),
    "partial-progress.max-failed-commits": _whole(0),
    "use-starting-sequence-number": _boolean,
    "remove-dangling-deletes": _boolean,
    "output-spec-id": _whole(0),
    "rewrite-job-order": convert.one_of("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"),
}
"""Iceberg's own options of ``rewrite_data_files``, and what converts their values to texts."""


_EXPIRE: Mapping[str, Callable[[Any], Any]] = {"older_than": _age, "retain_last": convert.whole(1)}
_ORPHANS: Mapping[str, Callable[[Any], Any]] = {"older_than": _orphan_age}
_KNOWN: Mapping[str, Mapping[str, Callable[[Any], Any]]] = {
    EXPIRE: _EXPIRE,
    ORPHANS: _ORPHANS,
    REWRITE: _REWRITE,
}
