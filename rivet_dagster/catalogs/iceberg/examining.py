"""Findings of whether an Iceberg catalog can be reached, for the doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.catalog_location import shown_from
from rivet_dagster.catalogs.iceberg.settings.places import local_warehouse, servers_of, stores_of
from rivet_dagster.errors import RivetError
from rivet_dagster.machine.disk import amount, free_space, little_space
from rivet_dagster.machine.server import Server, refusals
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

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
