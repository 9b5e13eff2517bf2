"""The base class of all catalogs; what only some catalogs can do is declared in ``capabilities``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import Files, Kinds, Relation
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.session_needs import SessionNeeds


class Catalog(ABC):
    """Storage for tables. Constructing one contacts nothing.

    Subclasses are found by entry point in the group ``rivet_dagster.catalogs``, named by their ``type``. A subclass
    declares its further capabilities by also deriving from classes of ``rivet_dagster.catalogs.capabilities``.
    """

    name: str
    type: ClassVar[str]
    options: ClassVar[frozenset[str]]
    """The keys that its declaration may have, besides ``type``."""
    other_options: ClassVar[bool] = False
    """Whether the declaration may have any other keys, which ``check`` gets, too; a misspelt key is refused anyway."""
    gives: ClassVar[Kinds] = frozenset({Files})
    """The kinds of relation by which engines read and write its tables."""

    @classmethod
    @abstractmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key, missing keys included.

        Each is the end of a sentence that begins with the key, as in ``must be a folder``.
        A value with an unexpanded ``${`` is not checked.
        """

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Return what is wrong with ``table``, and with the ``joint_options`` of the joint that reads or writes it.

        ``options`` are the catalog's; a value with an unexpanded ``${`` is not checked.
        """
        return ()

    @classmethod
    def columns_named(cls, joint_options: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
        """Return the columns that the ``joint_options`` of a table that is written name, each behind its option.

        The options are valid; a value with an unexpanded ``${`` names none.
        """
        return ()

    @abstractmethod
    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        """Take ``spec``, its ``${VAR}`` expanded; relative paths start at ``root``, the project's directory.

        Raises RVT-103, RVT-104, RVT-105.
        """

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return the settings, packages and jars that sessions of that type of engine need to reach these tables."""
        return SessionNeeds()

    @abstractmethod
    def relation(self, table: str, options: Mapping[str, Any]) -> Relation:
        """Return the current data of ``table`` as a relation that engines can read. Raises RVT-403 if there is none."""

    @abstractmethod
    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns that an engine would find in ``table``; None if only an engine can determine them.

        A type that only an engine can determine is None. Raises RVT-403.
        """

    @abstractmethod
    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return a short text that changes when the table's data changes. It takes no engine. Raises RVT-403."""

    @abstractmethod
    def uri(self, table: str) -> str:
        """Return the URI at which a person finds the table."""

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings about whether tables can be read here and, if a project ``publishes`` here, written.

        Nothing is changed and no engine is started. The findings also name what ``sweep`` would remove, where that can
        be found without an engine.
        """
        return ()


class NeedsEngine(Catalog):
    """looks up its tables through an engine.

    Where no engine is at hand, as while definitions load and in sensors, its methods raise RVT-403: they start none.
    """

    @abstractmethod
    def attach(self, open_session: Callable[[], EngineSession]) -> None:
        """Take the function that begins a session of an engine that reaches this catalog.

        It is called when a table is looked up for the first time, and raises RVT-403 if no engine is at hand then.
        """
