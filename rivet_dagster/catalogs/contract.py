"""The base of all catalogs: places where tables live. What only some of them can do stands in ``capabilities``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from rivet_dagster.model.finding import Finding
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import Files, Kinds, Relation
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.session_needs import SessionNeeds


class Catalog(ABC):
    """A place where tables live. Constructing one contacts nothing.

    Subclasses are found by entry point in the group ``rivet_dagster.catalogs``, named by their ``type``. Whatever else
    a type can do it says by the classes of ``rivet_dagster.catalogs.capabilities`` that it derives from.
    """

    name: str
    type: ClassVar[str]
    options: ClassVar[frozenset[str]]
    """The keys of its declaration, besides ``type``."""
    gives: ClassVar[Kinds] = frozenset({Files})
    """The kinds of relation that its tables are read as, and written as."""

    @classmethod
    @abstractmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the problems of the values of ``options``: a sentence by key, for a missing one too.

        A value that still holds ``${`` is not judged.
        """

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, own: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Return the problems of ``table``, and of the options ``own`` of the joint that reads or writes it.

        ``options`` are the catalog's; a value that still holds ``${`` is not judged.
        """
        return ()

    @abstractmethod
    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        """Take ``spec``, its ``${VAR}`` expanded; ``root`` is the project's directory, where relative paths start.

        Raises RVT-103, RVT-104, RVT-105.
        """

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return what sessions of that type of engine need before they start, to reach these tables."""
        return SessionNeeds()

    @abstractmethod
    def relation(self, table: str, options: Mapping[str, Any]) -> Relation:
        """Return what stands under ``table`` now, as an engine reads it. Raises RVT-403 where nothing does."""

    @abstractmethod
    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns that an engine would find under ``table``; None where only an engine knows them.

        A type that only an engine can tell is None. Raises RVT-403.
        """

    @abstractmethod
    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return a short text that changes when the table's data does, made without an engine. Raises RVT-403."""

    @abstractmethod
    def uri(self, table: str) -> str:
        """Return where a person finds the table."""

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return whether tables can be read here and, if a project ``publishes`` here, written; all stays as it was.

        No engine is started for it. What no engine is needed to find also names what ``sweep`` would remove.
        """
        return ()
