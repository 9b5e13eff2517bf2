"""Projects that read tables of a PostgreSQL database."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import psycopg

from support.folders import PROFILES, Files
from support.postgres import Database


def profiles(database: Database, /, **options: Any) -> dict[str, Any]:
    """Return profiles with a catalog `shop`, the database, beside the usual ones."""
    found = copy.deepcopy(PROFILES)
    shop = {"type": "jdbc", "url": database.jdbc, "user": database.user, "password": database.password, **options}
    found["default"]["catalogs"]["shop"] = shop
    found["default"]["engines"][0]["catalogs"].append("shop")
    return found


def source(table: str, **fields: Any) -> dict[str, Any]:
    """Return a source on a table of the database."""
    return {"type": "source", "catalog": "shop", "table": table, **fields}


def reading(database: Database, query: str, sources: dict[str, dict[str, Any]], /, **options: Any) -> Files:
    """Return a project that publishes the rows of a query of sources as the table `read`."""
    joint = f"-- rivet:catalog: lake\n{query}"
    files = {f"sources/{name}.yaml": content for name, content in sources.items()}
    return {"profiles.yaml": profiles(database, **options), "joints/read.sql": joint, **files}


def execute(database: Database, *statements: str) -> None:
    """Execute statements, each in a transaction of its own."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def rows(database: Database, query: str) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a query, as psycopg reads them."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        return connection.execute(query).fetchall()
