"""Requirements of catalogs on an engine's session before it starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable, Relation, Unreadable

_LISTS = frozenset({"spark.sql.extensions"})
"""Settings whose values are lists with commas, to which everybody may add."""

_CROSS_VERSION = re.compile(r"(-\d[\d.]*)?_\d[\d.]*$")
"""The versions of Scala, and before it of Spark, at the end of an artifact's name."""
_FILE_VERSION = re.compile(r"-\d[\w.+-]*$")


TableReader = Callable[[CatalogTable], Relation]
"""Takes a table of a catalog and returns its rows as files, or as Arrow rows, for an engine that does not know it."""


@dataclass(frozen=True)
class ResultColumn:
    """A column of the result of a query of a database, with the type of Spark as which it is read.

    It is read through a ``cast`` to a type of the database, if there is one. One that Spark cannot read says why it is
    ``unreadable``, and its ``type`` is the database's own, as ``declared`` always is.
    """

    name: str
    type: str
    declared: str
    cast: str | None = None
    unreadable: Unreadable | None = None


class QueryDatabase(Protocol):
    """The database of a catalog, for an engine whose queries it runs itself."""

    @property
    def url(self) -> str:
        """Its JDBC URL."""

    @property
    def uri(self) -> str:
        """Its address, without a user or a password."""

    @property
    def errors(self) -> type[Exception]:
        """The class of the errors of the Python driver. Raises RVT-123."""

    def open(self) -> Any:
        """Return a new connection, each of whose statements is a transaction of its own. Raises the driver's errors."""

    def columns(self, connection: Any, statement: str, values: Sequence[Any]) -> tuple[ResultColumn, ...]:
        """Return the columns of a query without rows, whose parameters have ``values``. Raises the driver's errors."""

    def cancel(self, connection: Any) -> None:
        """Have the server stop what it computes for the connection."""

    def translate_errors(self, what: str) -> AbstractContextManager[None]:
        """Turn errors of connecting in the block into RVT-403; ``what`` names what was asked for."""

    def translated(self, error: Any, table: str | None = None, line: int | None = None) -> RivetError:
        """Return the error of a query, or of a statement that adds its rows to a ``table``.

        RVT-503 at the ``line`` for the query itself, else RVT-401, RVT-404, RVT-510, RVT-527 or RVT-528.
        """


@dataclass(frozen=True)
class SessionNeeds:
    """The Maven packages, jars and settings that an engine's session needs; ``config`` may hold secrets.

    ``readers`` are for engines other than Spark, by the name of the catalog whose tables they read; ``databases`` for
    engines whose queries run in the database of the catalog.
    """

    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    readers: Mapping[str, TableReader] = field(default_factory=dict, repr=False)
    databases: Mapping[str, QueryDatabase] = field(default_factory=dict, repr=False)


def merge_needs(needs: Iterable[SessionNeeds], of_engine: SessionNeeds | None = None) -> SessionNeeds:
    """Merge the ``needs`` of catalogs with what the engine itself declares, its ``of_engine``, which wins.

    A package that the engine names itself, in whatever version and also as a jar, is left out; settings that are lists
    are joined. Raise RVT-126 where two catalogs need different values of a setting, or versions of a package.

    >>> iceberg = SessionNeeds(packages=("org:iceberg-4.1_2.13:1.12",), config={"io": "hadoop"})
    >>> merge_needs([iceberg, SessionNeeds(packages=("org:postgresql:42",)), iceberg]).packages
    ('org:iceberg-4.1_2.13:1.12', 'org:postgresql:42')
    >>> merge_needs([iceberg, SessionNeeds(config={"io": "s3"})])
    Traceback (most recent call last):
    rivet_dagster.errors.RivetError: RVT-126 two catalogs of one engine want io to be different things...
    >>> merge_needs([iceberg], SessionNeeds(jars=("/jars/iceberg-4.1_2.13-1.11.jar",), config={"io": "s3"}))
    SessionNeeds(packages=(), jars=('/jars/iceberg-4.1_2.13-1.11.jar',))
    """
    of_engine = of_engine or SessionNeeds()
    decided = {*of_engine.config, *map(package_name, of_engine.packages), *map(_jar_name, of_engine.jars)}
    decided |= {package_name(package).partition(":")[2] for package in of_engine.packages}
    packages: dict[str, str] = {}
    jars = dict.fromkeys(of_engine.jars)
    config: dict[str, str] = {}
    lists: dict[str, dict[str, None]] = {key: dict.fromkeys(_split(of_engine.config.get(key, ""))) for key in _LISTS}
    for need in needs:
        for package in need.packages:
            name = package_name(package)
            if decided.isdisjoint((name, name.partition(":")[2])):
                _add(packages, name, package)
        jars |= {jar: None for jar in need.jars if _jar_name(jar) not in decided}
        for key, value in need.config.items():
            if key in _LISTS:
                lists[key] |= dict.fromkeys(_split(value))
            elif key not in decided:
                _add(config, key, value)
    joined = {key: ",".join(values) for key, values in lists.items() if values}
    return SessionNeeds(
        (*of_engine.packages, *packages.values()), tuple(jars), {**config, **of_engine.config, **joined}
    )


def package_name(package: str) -> str:
    """Return Maven coordinates without any version, neither its own nor those of Spark and Scala.

    >>> package_name("org.postgresql:postgresql:42.7.14"), package_name("org.lake:runtime-4.1_2.13:1.12.0")
    ('org.postgresql:postgresql', 'org.lake:runtime')
    """
    return _CROSS_VERSION.sub("", ":".join(package.split(":")[:2]))


def _jar_name(jar: str) -> str:
    """Return the name of the artifact in a file that is named as Maven names it.

    >>> _jar_name("/jars/runtime-4.1_2.13-1.12.0.jar"), _jar_name("https://repo/postgresql-42.7.14.jar")
    ('runtime', 'postgresql')
    """
    stem = jar.rpartition("/")[2].removesuffix(".jar")
    return _CROSS_VERSION.sub("", _FILE_VERSION.sub("", stem))


def _split(values: str) -> list[str]:
    return [value for part in values.split(",") if (value := part.strip())]


def _add(merged: dict[str, str], key: str, value: str) -> None:
    if merged.setdefault(key, value) != value:
        raise RivetError("RVT-126", f"two catalogs of one engine want {key} to be different things")
