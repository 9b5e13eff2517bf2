"""The properties of installed catalogs and engines that the compiler needs, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.relations import ArrowRows, Files, Kinds
from rivet_dagster.model.target import Location
from rivet_dagster.model.write_strategy import WriteStrategy

SPARK = "databricks"
"""sqlglot's name of its Databricks dialect, which reads all of Spark's SQL that sqlglot supports, and a little more."""

CheckOptions = Callable[[Mapping[str, Any]], Mapping[str, str]]
"""Takes the options of a declaration and returns what is wrong with their values: a sentence by key."""


Refuses = Callable[[Mapping[str, Any], str], str | None]
"""Takes a catalog's options and a table, and returns why it cannot be a landing zone, or listed; None if it can."""


Places = Callable[[Mapping[str, Any], str], Iterable[Location]]
"""Takes a catalog's options and a table, and returns the locations of its rows."""


@dataclass(frozen=True)
class Wrong:
    """An error of a table, at a ``key`` of the joint that declares it."""

    code: str
    key: str
    message: str
    remediation: str | None = None


CheckTable = Callable[[Mapping[str, Any], str, Mapping[str, Any], bool], Iterable[Wrong]]
"""Takes a catalog's options, a table, the joint's own options and whether it writes the table; returns the errors."""


FileFormat = Callable[[Mapping[str, Any], str, Mapping[str, Any]], str | None]
"""Takes a catalog's options, a table and the source's own options; returns the format of its files, as far as known."""


RefusesTable = Callable[[CatalogSpec, str | None, Mapping[str, Any], bool], Iterable[Wrong]]
"""Takes a catalog, the format of the table's files, the joint's own options and whether the table is written.

Returns why the engine cannot do it.
"""


NamesColumns = Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
"""Takes the own options of a joint and returns the columns that they name, each behind its option."""


def _nothing_wrong(_: Mapping[str, Any]) -> Mapping[str, str]:
    return {}


def _no_landing_zones(_: Mapping[str, Any], table: str) -> str | None:
    return "its type of catalog has no landing zones"


def _no_files(_: Mapping[str, Any], table: str) -> str | None:
    return "its type of catalog has no files to list"


def _no_rules(_: Mapping[str, Any], table: str, joint_options: Mapping[str, Any], is_written: bool) -> Iterable[Wrong]:
    return ()


def _no_format(_: Mapping[str, Any], table: str, joint_options: Mapping[str, Any]) -> str | None:
    return None


def _takes_all(
    _: CatalogSpec, format: str | None, joint_options: Mapping[str, Any], is_written: bool
) -> Iterable[Wrong]:
    return ()


def _takes_all_catalogs(_: Sequence[CatalogSpec]) -> str | None:
    return None


def _takes_all_checks(_: str) -> str | None:
    return None


def _no_variant(_: Mapping[str, Any]) -> EngineTraits | None:
    return None


def _of_spark(_: EngineSpec) -> str | None:
    return None


def _no_columns(joint_options: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    return ()


def _does_all(_: Mapping[str, Any], strategy: WriteStrategy) -> str | None:
    return None


def _one_by_one(_: Mapping[str, Any]) -> bool:
    return False


def _nowhere(_: Mapping[str, Any], table: str) -> Iterable[Location]:
    return ()


@dataclass(frozen=True)
class CatalogTraits:
    """The write strategies that a type of catalog supports, the keys of its declaration, and which tables are files."""

    strategies: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()
    check: CheckOptions = _nothing_wrong
    refuses_landing: Refuses = _no_landing_zones
    refuses_listing: Refuses = _no_files
    written_locations: Places = _nowhere
    read_locations: Places = _nowhere
    check_table: CheckTable = _no_rules
    columns_named: NamesColumns = _no_columns
    gives: Kinds = frozenset({Files})
    """The kinds of relation as which its tables are read and written."""
    error_tables: bool = False
    """Whether it can publish a table of row errors with another table."""
    adopts: bool = False
    """Whether it can take over tables that somebody else has made."""
    refuses_write: Callable[[Mapping[str, Any], WriteStrategy], str | None] = _does_all
    """Takes a catalog's options and one of its write strategies, and returns why it cannot do it; None if it can."""
    in_one_commit: Callable[[Mapping[str, Any]], bool] = _one_by_one
    """Takes a catalog's options and returns whether it publishes the tables of a run in one commit."""
    keeps_versions: bool = True
    """Whether a version stays readable for a while after another one has been published."""
    other_options: bool = False
    """Whether its declaration may have further keys."""
    file_format: FileFormat = _no_format


@dataclass(frozen=True)
class EngineTraits:
    """The keys of the declaration of a type of engine, the kinds of relation that it reads and writes, and its SQL.

    ``separates_errors`` says whether its groups can quarantine rows.
    """

    options: frozenset[str]
    check: CheckOptions = _nothing_wrong
    reads: Kinds = frozenset({Files, ArrowRows})
    writes: Kinds = frozenset({Files})
    dialect: str = SPARK
    separates_errors: bool = True
    other_options: bool = False
    wrong_settings: CheckOptions = _nothing_wrong
    """Takes settings for the sessions of one group, and returns what is wrong with them: a sentence by key."""
    sql_support: Callable[[EngineSpec], str | None] = _of_spark
    """Takes a declaration and returns the name of the list of constructs that run there, None where it is Spark."""
    refuses_table: RefusesTable = _takes_all
    refuses_catalogs: Callable[[Sequence[CatalogSpec]], str | None] = _takes_all_catalogs
    """Takes the catalogs of a declaration, and returns why the engine cannot use them: the end of a sentence."""
    refuses_check: Callable[[str], str | None] = _takes_all_checks
    """Takes a query of a check in Spark's SQL, and returns the construct for which sessions refuse it."""
    variant: Callable[[Mapping[str, Any]], EngineTraits | None] = _no_variant
    """Takes the options of a declaration and returns the traits that it has by them; None if it has these."""

    @property
    def runs_native_sql_alone(self) -> bool:
        """Whether it runs joints in its own SQL alone, and none of Spark's."""
        return self.dialect != SPARK and self.sql_support(EngineSpec("", "")) is None


@dataclass(frozen=True)
class Plugins:
    """The traits of catalogs and engines by type."""

    catalogs: Mapping[str, CatalogTraits] = field(default_factory=dict)
    engines: Mapping[str, EngineTraits] = field(default_factory=dict)

    def engine(self, spec: EngineSpec | None) -> EngineTraits | None:
        """Return the traits of a declared engine; None if there is none, or if its type is not installed."""
        traits = self.engines.get(spec.type) if spec is not None else None
        return traits if spec is None or traits is None else traits.variant(spec.options) or traits
