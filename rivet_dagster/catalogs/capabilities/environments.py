"""Environments: branches of the data, on which a project runs without anything of it reaching readers of the base."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rivet_dagster.model.storage import Published

ABANDONED_AFTER = timedelta(days=30)
"""The time without a run or another use after which an environment counts as abandoned."""


@dataclass(frozen=True)
class Environment:
    """An environment of a catalog that is not over.

    ``profile`` is the one whose runs made it; ``created_at`` and ``used_at`` are times in ISO 8601, the latter that of
    the last run or other use. ``tables`` are those that were built there, in order. ``merging`` says that a merge has
    been interrupted, which the same command finishes.
    """

    name: str
    profile: str
    created_at: str
    used_at: str
    tables: tuple[str, ...] = ()
    merging: bool = False


@dataclass(frozen=True)
class BuiltTable:
    """A table that was built in an environment.

    ``base`` is the version of the base that the environment's rows build upon, and stays readable as long as the
    environment exists, even if it has expired in the base; None if the base had no such table. ``current`` is the
    version that readers in the environment see. Both are read by the catalog that ``in_environment`` returns, also with
    ``errors_of``. ``moved`` says that the base has published since, or has removed the table; ``same``, that storage
    tells without reading a row that ``base`` and ``current`` hold the same rows.
    """

    table: str
    base: Published | None
    current: Published
    moved: bool = False
    same: bool = False
