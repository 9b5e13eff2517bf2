"""What the compiler needs to know of the installed catalogs and engines, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.model.location import Location
from rivet_dagster.model.relations import ArrowRows, Files, Kinds

SPARK = "databricks"
"""sqlglot's name of the dialect that reads all of Spark's SQL that sqlglot knows, and a little more."""

CheckOptions = Callable[[Mapping[str, Any]], Mapping[str, str]]
"""Given the options of a declaration, what is wrong with their values: a sentence by key."""


Refuses = Callable[[Mapping[str, Any], str], str | None]
"""Given a catalog's options and a table, why that cannot be a landing zone, or listed; None where it can."""


Places = Callable[[Mapping[str, Any], str], Iterable[Location]]
"""Given a catalog's options and a table, where its rows lie."""


@dataclass(frozen=True)
class Wrong:
    """A problem of a table, at a ``key`` of the joint that declares it."""

    code: str
    key: str
    message: str
    remediation: str | None = None


CheckTable = Callable[[Mapping[str, Any], str, Mapping[str, Any], bool], Iterable[Wrong]]
"""Given a catalog's options, a table, the joint's own options and whether the joint writes the table."""


def _nothing_wrong(_: Mapping[str, Any]) -> Mapping[str, str]:
    return {}


def _no_landing_zones(_: Mapping[str, Any], table: str) -> str | None:
    return "its type of catalog has no landing zones"


def _no_files(_: Mapping[str, Any], table: str) -> str | None:
    return "its type of catalog has no files to list"


def _no_rules(_: Mapping[str, Any], table: str, own: Mapping[str, Any], is_written: bool) -> Iterable[Wrong]:
    return ()


def _nowhere(_: Mapping[str, Any], table: str) -> Iterable[Location]:
    return ()


@dataclass(frozen=True)
class CatalogTraits:
    """The write strategies a type of catalog can do, the keys of its declaration, and which tables are files."""

    strategies: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()
    check: CheckOptions = _nothing_wrong
    refuses_landing: Refuses = _no_landing_zones
    refuses_listing: Refuses = _no_files
    written_locations: Places = _nowhere
    read_locations: Places = _nowhere
    check_table: CheckTable = _no_rules
    gives: Kinds = frozenset({Files})
    """The kinds of relation that its tables are read as, and written as."""


@dataclass(frozen=True)
class EngineTraits:
    """The keys of a type of engine's declaration, the kinds of relation that it reads and writes, and its SQL."""

    options: frozenset[str]
    check: CheckOptions = _nothing_wrong
    reads: Kinds = frozenset({Files, ArrowRows})
    writes: Kinds = frozenset({Files})
    dialect: str = SPARK


@dataclass(frozen=True)
class Plugins:
    """Traits by type."""

    catalogs: Mapping[str, CatalogTraits] = field(default_factory=dict)
    engines: Mapping[str, EngineTraits] = field(default_factory=dict)
