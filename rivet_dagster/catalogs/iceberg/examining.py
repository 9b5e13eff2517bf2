"""Findings of whether an Iceberg catalog can be reached, and whether commits to it work, for the doctor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.upkeep import small_files
from rivet_dagster.catalogs.iceberg.commits.committing import REMOVES_METADATA
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import facts_of
from rivet_dagster.catalogs.iceberg.settings.options import HIVE, JDBC, NESSIE, REST, SQLITE, warehouse
from rivet_dagster.catalogs.iceberg.settings.upkeep_options import parse_upkeep
from rivet_dagster.errors import RivetError
from rivet_dagster.machine import Server, amount, free_space, little_space, refusals, servers_in, web_servers
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.paths import scheme, shown_from

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


_NAMES = 5
"""The number of leftovers that a finding names."""

_REMEDY = "Start it, or correct the catalog's options."


def examine(
    subject: str, options: Mapping[str, Any], root: Path, staged: Callable[[], Sequence[str]]
) -> Iterator[Finding]:
    """Yield findings of reaching a catalog by ``staged``, which returns the names of what runs have staged there.

    It is not called if a server that it needs accepts no connection, since clients try that for minutes.
    """
    servers, stores = servers_of(options), stores_of(options)
    unreached = refusals((*servers, *stores))
    missing = [server for server in stores if server in unreached]
    # Of several servers of a catalog any one is enough.
    missing += [server for server in servers if all(other in unreached for other in servers)]
    for server in missing:
        what = "object store" if server in stores else "catalog's server"
        error = RivetError("RVT-403", f"no {what} answers at {server}: {unreached[server]}", remediation=_REMEDY)
        yield from broken(subject, error)
    if missing:
        return
    try:
        names = staged()
    except RivetError as error:
        yield from broken(subject, error)
        return
    yield in_order(subject, _answers(servers, unreached, stores) + _free(options, root))
    yield from _doubts(subject, options, root, unreached)
    if names:
        shown = ", ".join(names[:_NAMES]) + (", ..." if len(names) > _NAMES else "")
        text = f"{len(names)} staged version{'' if len(names) == 1 else 's'} of runs, alive or dead: {shown}"
        yield doubtful(subject, text, "`rivet-dagster sweep` removes those of dead runs, and so does the next write.")


MANY_SNAPSHOTS = 1_000
"""From how many snapshots on a table is doubtful: each commit reads and writes them all."""

LONG_PROPERTY = 450_000
"""From how many characters on a property is doubtful; AWS Glue refuses a value of more than 512,000 bytes."""


def examine_table(subject: str, table: Table, options: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield findings of what makes each commit to ``table`` slower: files, snapshots, metadata files and properties."""
    metadata = table.metadata
    steps = parse_upkeep(options.get("upkeep"))
    upkeep = "Run `rivet-dagster upkeep` regularly" + (
        ", with the catalog's option `upkeep`." if steps is None else "."
    )
    current = table.current_snapshot()
    facts = facts_of(current) if current is not None else {}
    files, size = (int(facts.get(f"total-{what}") or 0) for what in ("data-files", "files-size"))
    yield from small_files(subject, files, size, upkeep)
    keeps_all = metadata.properties.get("gc.enabled", "true").lower() == "false"
    if len(metadata.snapshots) >= MANY_SNAPSHOTS:
        oldest = min(snapshot.timestamp_ms for snapshot in metadata.snapshots)
        since = datetime.fromtimestamp(oldest / 1000, UTC).date().isoformat()
        text = f"it has {len(metadata.snapshots):,} snapshots, since {since}, which each commit reads and writes"
        yield doubtful(subject, text, _KEEPS_ALL if keeps_all else upkeep)
    has_orphans_removed = steps is not None and steps.remove_orphan_files is not None
    removes = has_orphans_removed or metadata.properties.get(REMOVES_METADATA, "false").lower() == "true"
    commits = getattr(metadata, "last_sequence_number", 0)  # tables of version 1 have none
    if commits >= MANY_SNAPSHOTS and not removes and not keeps_all:
        text = f"nothing removes the metadata files that its {commits:,} commits have written"
        yield doubtful(subject, text, f"Set `{REMOVES_METADATA}: true` in the joint's option `properties`.")
    for name, value in metadata.properties.items():
        if len(value) >= LONG_PROPERTY:
            text = f"its property {name} has {len(value):,} characters, and AWS Glue takes at most 512,000 bytes"
            yield doubtful(subject, text, "Shorten or remove it.")


_KEEPS_ALL = "Upkeep removes none while its property `gc.enabled` is false, since other branches may read them."


def _answers(servers: Sequence[Server], unreached: Mapping[Server, str], stores: Sequence[Server]) -> str:
    reached = " and ".join(str(server) for server in servers if server not in unreached)
    store = f", the object store at {', '.join(map(str, stores))} too" if stores else ""
    return f"answers{f' at {reached}' if reached else ''}{store}"


def _free(options: Mapping[str, Any], root: Path) -> str:
    folder = local_warehouse(options, root)
    return "" if folder is None else f", {amount(free_space(folder))} free in {shown_from(root, folder)}"


def _doubts(subject: str, options: Mapping[str, Any], root: Path, unreached: Mapping[Server, str]) -> Iterator[Finding]:
    for server, why in unreached.items():
        yield doubtful(subject, f"of the catalog's servers {server} does not answer: {why}", _REMEDY)
    folder = local_warehouse(options, root)
    if folder is not None:
        yield from little_space(subject, folder, shown_from(root, folder))


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
    path = warehouse(options, root)
    return None if path is None or scheme(path) != "file" else Path(path.removeprefix("file://"))


def try_to_commit(catalog: Catalog) -> None:
    """Try the file operations of a commit in the warehouse, or where it will be; do nothing in other catalogs.

    Raises OSError.
    """
    from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog

    if isinstance(catalog, HadoopCatalog):
        existing = next(path for path in (catalog.folder, *catalog.folder.parents) if path.exists())
        with TemporaryDirectory(prefix=".rivet-doctor-", dir=existing) as name:
            probe = Path(name)
            (probe / "file").touch()
            os.link(probe / "file", probe / "linked")
