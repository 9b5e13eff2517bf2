"""The servers and the folder that a catalog needs, by its options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.catalog_location import scheme
from rivet_dagster.catalogs.iceberg.settings.options import HIVE, JDBC, NESSIE, REST, SQLITE, warehouse
from rivet_dagster.machine.server import Server, servers_in, web_servers

_POSTGRES, _HIVE = 5432, 9083
"""The ports of addresses without one."""


def servers_of(options: Mapping[str, Any]) -> tuple[Server, ...]:
    """Return the servers of a catalog, any of which is enough; none where its tables alone are the catalog.

    >>> print(*servers_of({"catalog": "jdbc", "uri": "jdbc:postgresql://ann:secret@db1,db2:5433/lake?ssl=true"}))
    db1:5432 db2:5433
    >>> servers_of({"catalog": "jdbc", "uri": "jdbc:sqlite:lake.db"})
    ()
    """
    kind, address = options["catalog"], str(options.get("uri", ""))
    if kind in (REST, NESSIE):
        return web_servers(address)
    if kind == HIVE:
        return servers_in(address, _HIVE)
    if kind != JDBC or address.startswith(SQLITE):
        return ()
    _, slashes, rest = address.removeprefix("jdbc:").partition("//")
    # Without a host JDBC means this machine's port.
    return servers_in(rest.partition("/")[0] if slashes else "localhost", _POSTGRES)


def stores_of(options: Mapping[str, Any]) -> tuple[Server, ...]:
    """Return the server of the object store that the options name, in place of that of a cloud.

    >>> print(*stores_of({"catalog": "rest", "uri": "http://lake", "s3.endpoint": "http://minio.invalid:9000"}))
    minio.invalid:9000
    """
    return web_servers(str(options["s3.endpoint"])) if "s3.endpoint" in options else ()


def local_warehouse(options: Mapping[str, Any], root: Path) -> Path | None:
    """Return the folder of all tables if it is on this machine."""
    place = warehouse(options, root)
    return None if place is None or scheme(place) != "file" else Path(place.removeprefix("file://"))
