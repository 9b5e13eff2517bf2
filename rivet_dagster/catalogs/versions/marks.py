"""Versions with a mark, which are not published: withheld for a person, or staged for the last step of a run.

A storage implements ``MarkedVersion``. A withheld version stays until somebody publishes or removes it, a staged one as
long as its run sends heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from rivet_dagster.catalogs.versions.refusals import no_staged_version, unknown_version
from rivet_dagster.model.storage import WITHHELD, Version


class MarkedVersion(Protocol):
    """A version with a mark."""

    @property
    def name(self) -> str:
        """The name of the version."""

    @property
    def is_staged(self) -> bool:
        """Whether it is staged for the last step of a run, else it is withheld."""

    @property
    def identity(self) -> str:
        """The run that has made it."""

    def describe(self) -> Version:
        """Return it as a list of versions tells it."""


M = TypeVar("M", bound=MarkedVersion)


def find_staged_by(marked: Iterable[M], identity: str) -> M | None:
    """Return the first version that was staged under ``identity``; None if there is none."""
    return next((version for version in marked if version.is_staged and version.identity == identity), None)


def find_staged(marked: Iterable[M], name: str) -> M | None:
    """Return the staged version of that name; None if there is none."""
    return next((version for version in marked if version.name == name and version.is_staged), None)


def require_staged(marked: Iterable[M], table: str, name: str) -> M:
    """Return the staged version of that name. Raises RVT-418."""
    version = find_staged(marked, name)
    if version is None:
        raise no_staged_version(table, name)
    return version


def withheld_of(marked: Iterable[M]) -> list[M]:
    """Return the versions that are withheld."""
    return [version for version in marked if not version.is_staged]


def require_withheld(marked: Iterable[M], table: str, name: str) -> M:
    """Return the withheld version of that name. Raises RVT-408, which names those that there are."""
    withheld = withheld_of(marked)
    required = next((version for version in withheld if version.name == name), None)
    if required is None:
        raise unknown_version(table, name, WITHHELD, [version.name for version in withheld])
    return required


def list_versions(published: Iterable[Version], marked: Iterable[MarkedVersion]) -> tuple[Version, ...]:
    """Return the versions of a table: the ``published`` ones, then the withheld ones, then the staged ones."""
    others = list(marked)
    staged = [version for version in others if version.is_staged]
    return (*published, *(version.describe() for version in (*withheld_of(others), *staged)))
