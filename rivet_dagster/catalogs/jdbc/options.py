"""The options of a catalog of the type ``jdbc``, those of its sources and targets, and the names of their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.catalogs.capabilities.staging import wrong_publish
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.step_options import STEP_OPTIONS
from rivet_dagster.model.target import PUBLISH

POSTGRES, MARIADB = "jdbc:postgresql:", "jdbc:mariadb:"
"""The beginnings of JDBC URLs."""

READS, LOCKED, APART = "reads", "locked", "apart"
"""The option of a catalog whose database shares no snapshot, and its values."""

TLS = ("sslmode", "sslrootcert")
"""Options that both the JDBC driver and libpq know by these names."""

OPTIONS = frozenset({"url", "user", "password", "driver", "schema", "connections", READS, PUBLISH, *TLS})

CONNECTIONS = 8
"""How many connections a run of a group opens at most, unless the catalog says."""

FETCHED = 5_000
"""How many rows a connection has in memory at a time, unless the source says."""

_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

SOURCE_OPTIONS = ("partition_by", "partitions", "casts", "fetch_size", "version_by", "changed_at")


REPLACE_BY, SWAP = "replace_by", "swap"
"""The option of a table that is written, and its value with which a new table takes the place of the old one."""


def wrong_target(options: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the errors of the options of a table that is written.

    >>> [problem.message for problem in wrong_target({"replace_by": "rename"})]
    ["`replace_by` must be swap, not 'rename'"]
    """
    for key, value in options.items():
        if key != REPLACE_BY:
            hint = nearest(key, (REPLACE_BY, *STEP_OPTIONS), listed=False) or f"; known: {REPLACE_BY}"
            yield Wrong("RVT-203", f"options.{key}", f"unknown option '{key}'{hint}")
        elif value != SWAP and not is_unexpanded(value):
            yield Wrong("RVT-204", f"options.{key}", f"`{key}` must be {SWAP}, not {show(value)}")


def wrong_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the values of ``options``: a sentence by key.

    >>> wrong_options({"url": "jdbc:postgresql://db/shop", "connections": 1})
    {'connections': 'must be a whole number of at least 2, not 1'}
    """
    wrong: dict[str, str] = {}
    url = options.get("url")
    if url is None:
        wrong["url"] = "is missing"
    elif not is_unexpanded(url) and not (isinstance(url, str) and url.startswith((POSTGRES, MARIADB))):
        wrong["url"] = (
            f"must be the JDBC URL of a PostgreSQL database, like {POSTGRES}//host:5432/shop, or of a MariaDB "
            f"database, like {MARIADB}//host:3306/shop, not {show(url)}"
        )
    elif str(url).startswith(MARIADB) and not _names_database(str(url)):
        wrong["url"] = f"must name the database, like {MARIADB}//host:3306/shop"
    reads = options.get(READS, LOCKED)
    if not is_unexpanded(reads) and reads not in (LOCKED, APART):
        wrong[READS] = f"must be {LOCKED} or {APART}, not {show(reads)}{nearest(str(reads), (LOCKED, APART))}"
    elif READS in options and str(url).startswith(POSTGRES):
        wrong[READS] = "is for MariaDB: a run of a group reads all tables of PostgreSQL at one snapshot"
    for key in ("user", "password", "driver", "schema", *TLS):
        value = options.get(key, "a")
        if not is_unexpanded(value) and (isinstance(value, bool) or not isinstance(value, str | int) or value == ""):
            wrong[key] = "must be a text"
    mode = options.get("sslmode", "prefer")
    if not is_unexpanded(mode) and mode not in _MODES:
        wrong["sslmode"] = f"must be one of {', '.join(_MODES)}, not {show(mode)}{nearest(str(mode), _MODES)}"
    wrong |= wrong_publish(options)
    connections = options.get("connections", CONNECTIONS)
    if not is_unexpanded(connections) and not _is_whole(connections, 2):
        wrong["connections"] = f"must be a whole number of at least 2, not {show(connections)}"
    return wrong


def wrong_source(options: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the errors of a source's options.

    >>> [problem.message for problem in wrong_source({"partition_by": "id", "casts": {"amount": "numeric(38, 9)"}})]
    ['`partition_by` needs `partitions`: the number of queries among which the rows are shared out']
    """
    for key, value in options.items():
        if key not in SOURCE_OPTIONS:
            known = (*SOURCE_OPTIONS, *STEP_OPTIONS)
            hint = nearest(key, known, listed=False) or f"; known: {', '.join(SOURCE_OPTIONS)}"
            yield Wrong("RVT-203", f"options.{key}", f"unknown option '{key}'{hint}")
        elif (why := _wrong_value(key, value)) is not None:
            yield Wrong("RVT-204", f"options.{key}", f"`{key}` {why}")
    if "partition_by" in options and "partitions" not in options:
        message = "`partition_by` needs `partitions`: the number of queries among which the rows are shared out"
        yield Wrong("RVT-204", "options.partition_by", message)


@dataclass(frozen=True)
class SourceOptions:
    """The options of a source, with their types.

    ``partitions`` is the number of queries among which its rows are shared out, by the values of ``partition_by``, or
    by where they are stored. ``casts`` are types of the database by column. ``version_by`` is the column whose max
    tells that the data has changed. ``changed_at`` is the column that each transaction sets to its time.
    """

    partition_by: str | None = None
    partitions: int = 1
    casts: Mapping[str, str] = field(default_factory=dict)
    fetch_size: int = FETCHED
    version_by: str | None = None
    changed_at: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SourceOptions:
        """Return the options of a joint, which are valid."""
        return cls(
            options.get("partition_by"),
            int(options.get("partitions", 1)),
            options.get("casts", {}),
            int(options.get("fetch_size", FETCHED)),
            options.get("version_by", options.get("changed_at")),
            options.get("changed_at"),
        )


def _wrong_value(key: str, value: Any) -> str | None:
    if key in ("partitions", "fetch_size"):
        return None if _is_whole(value, 1) else f"must be a whole number of at least 1, not {show(value)}"
    if key != "casts":
        return None if isinstance(value, str) and value else f"must name a column, not {show(value)}"
    if not isinstance(value, Mapping):
        return f"must be types by column, like {{amount: 'numeric(38, 9)'}}, not {show(value)}"
    return None


def _names_database(url: str) -> bool:
    return url.partition("?")[0].removeprefix(MARIADB).removeprefix("//").partition("/")[2] != ""


def _is_whole(value: Any, least: int) -> bool:
    # An expanded variable is always a text.
    return not isinstance(value, bool) and str(value).isdecimal() and int(value) >= least


def table_name(text: str, schema: str) -> tuple[str, str]:
    """Return schema and name of what a source's ``table`` names, as the database stores them. Raises RVT-204.

    >>> table_name("orders", "public"), table_name("shop.Orders", "public")
    (('public', 'orders'), ('shop', 'Orders'))
    """
    parts = text.split(".")
    if len(parts) > 2 or not all(parts) or "\0" in text:
        message = f"no table of a database can be called '{text}'"
        raise RivetError(
            "RVT-204", message, remediation="Name it `table` or `schema.table`, as the database stores it."
        )
    return (schema, parts[0]) if len(parts) == 1 else (parts[0], parts[1])
