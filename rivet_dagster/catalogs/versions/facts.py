"""The facts that any storage records with a version: by whom, from what, and how its rows came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from rivet_dagster.model.inputs import Inputs
from rivet_dagster.model.row_errors import ERROR_COLUMNS
from rivet_dagster.model.storage import Provenance, Published, Record, Statistics, Version

ADOPTED = "adopted"
"""The identity of the first version of a table that somebody else has made: no run's, and no retry finds it."""


class VersionFacts(Protocol):
    """Facts that are recorded with a version: the run that published it, and if a person did, the one that made it."""

    @property
    def identity(self) -> str:
        """The run, or the person's command, that published it."""

    @property
    def made_by(self) -> str:
        """The run that made it; empty where that is ``identity``."""

    @property
    def rows(self) -> int:
        """The number of its rows."""

    @property
    def rows_before(self) -> int:
        """The number of rows of the version that it replaced."""

    @property
    def record(self) -> Record:
        """How many rows its write has changed."""

    @property
    def inputs(self) -> Inputs:
        """The positions of the inputs that it was made from."""

    @property
    def code_versions(self) -> Mapping[str, str]:
        """The code by which it was made."""


def is_by(facts: VersionFacts, identity: str) -> bool:
    """Return whether a retry of the run ``identity`` must find the version: it has published it, or made it."""
    return identity != "" and identity in (facts.identity, facts.made_by)


def describe_published(
    facts: VersionFacts, catalog: str, table: str, version: str, uri: str, statistics: Statistics
) -> Published:
    """Return a published version with these facts, whose rows have these statistics."""
    return Published(
        catalog,
        table,
        version,
        uri,
        statistics,
        facts.rows_before,
        facts.identity,
        facts.record,
        facts.inputs,
        code_versions=facts.code_versions,
    )


def describe_version(facts: VersionFacts, name: str, state: str, published_at: str | None = None) -> Version:
    """Return a version with these facts as a list of versions tells it."""
    return Version(name, state, facts.rows, published_at, facts.identity, facts.inputs)


def record_of(record: Record | None, statistics: Statistics, rows_before: int) -> Record:
    """Return the record of a write; without one it has replaced all rows.

    >>> record_of(None, Statistics(3, 99), 2)
    Record(inserted=3, updated=0, deleted=2, bytes=99)
    """
    return record or Record(statistics.rows, 0, rows_before, statistics.bytes)


def update_provenance(known: Provenance, made: Provenance | None) -> Provenance:
    """Return what is ``known`` of a version with the inputs and the code that a transaction was told, if it was."""
    return known if made is None else replace(known, inputs=made.inputs, code_versions=made.code_versions)


def has_error_columns(columns: Mapping[str, object] | set[str]) -> bool:
    """Return whether an error table has all of ERROR_COLUMNS, as it lacks some if an earlier release has made it.

    The errors of one that lacks some are written again: many readers expect the columns of one of its files in all.
    """
    return {*ERROR_COLUMNS} <= {*columns}
