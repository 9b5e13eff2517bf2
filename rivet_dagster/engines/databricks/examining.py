"""Findings about a SQL warehouse for ``rivet-dagster doctor``, without starting it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rivet_dagster.engines.databricks.installed import PACKAGE, connector_version, require_connector
from rivet_dagster.errors import RivetError
from rivet_dagster.machine import Server, any_server
from rivet_dagster.model.finding import Finding, broken, in_order

_REMEDY = "Correct the engine's `host`."


def examine_warehouse(subject: str, arguments: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield findings about the connector and about whether the workspace accepts connections."""
    try:
        require_connector()
    except RivetError as error:
        yield from broken(subject, error)
        return
    yield in_order(subject, f"{PACKAGE} {connector_version()}, for the warehouse {arguments['http_path']}")
    server = Server(arguments["server_hostname"], arguments.get("_port", 443))
    yield from any_server(subject, "workspace", (server,), "RVT-502", _REMEDY)
