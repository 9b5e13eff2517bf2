"""A database product that the catalog knows: what is peculiar to it, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rivet_dagster.catalogs.capabilities.sources import Snapshot
from rivet_dagster.catalogs.jdbc.database import Database
from rivet_dagster.catalogs.jdbc.published.kind import DatabaseKind
from rivet_dagster.catalogs.jdbc.published.reader import Reader
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.write_strategy import WriteStrategy
from rivet_dagster.sql.database_trees import Name

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Product:
    """A database product.

    ``driver`` is the class of its JDBC driver, which is in ``package``. ``schema`` returns the schema of tables that
    name none, of a catalog with these options. ``reader`` takes a function that returns the name of a joint's table,
    and the class of the driver; ``snapshot`` takes how many tables are read, by how many connections, and the catalog's
    options; ``examine`` the subject of findings, the schema, and whether tables are published. ``wrong_source`` and
    ``wrong_target`` take the catalog's options and those of a joint that reads or writes a table; ``refuses`` returns
    why it cannot do a write strategy, None if it can.
    """

    name: str
    driver: str
    package: str
    kind: DatabaseKind
    database: type[Database]
    schema: Callable[[Options], str]
    reader: Callable[[Database, Callable[[str], Name], str], Reader]
    snapshot: Callable[[Reader, int, int, Options], Snapshot]
    examine: Callable[[str, Database, str, bool], Iterable[Finding]]
    wrong_source: Callable[[Options, Options], Iterable[Wrong]]
    wrong_target: Callable[[Options, Options], Iterable[Wrong]]
    refuses: Callable[[WriteStrategy], str | None]
