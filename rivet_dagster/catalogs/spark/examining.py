"""Findings of whether Hive's metastore can be reached, and tables be written, without starting Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.catalog_location import scheme, shown_from
from rivet_dagster.errors import RivetError
from rivet_dagster.machine.disk import amount, free_space, little_space, try_to_write
from rivet_dagster.machine.server import servers_in
from rivet_dagster.machine.server_findings import any_server
from rivet_dagster.model.finding import Finding, broken, in_order

_PORT = 9083
_START = "Start it, or correct `metastore`."
_RIGHTS = "Give this user the right to write there, or the catalog another folder."


def examine(subject: str, options: Mapping[str, Any], root: Path, publishes: bool) -> Iterator[Finding]:
    """Yield findings about the metastore and, if a project ``publishes`` here, its folders; ``options`` are resolved.

    What Spark's own configuration names is not known without Spark.
    """
    metastore = options.get("metastore")
    if metastore is not None and scheme(metastore) == "thrift":
        yield from any_server(subject, "metastore of Hive", servers_in(metastore, _PORT), "RVT-403", _START)
    for key in ("metastore", "warehouse"):
        place = options.get(key)
        if publishes and place is not None and scheme(place) is None:
            yield from _folder(subject, key, Path(place), root)


def _folder(subject: str, key: str, folder: Path, root: Path) -> Iterator[Finding]:
    shown = shown_from(root, folder)
    try:
        try_to_write(folder)
        free = free_space(folder)
    except OSError as error:
        message = f"the {key} {shown} cannot be written: {error.strerror}"
        yield from broken(subject, RivetError("RVT-404", message, remediation=_RIGHTS))
        return
    yield in_order(subject, f"the {key} {shown} can be written, {amount(free)} free")
    yield from little_space(subject, folder, shown)
