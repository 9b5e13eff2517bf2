"""Findings of servers of which any one is enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rivet_dagster.errors import RivetError
from rivet_dagster.machine.server import Server, refusals
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order


def any_server(subject: str, name: str, servers: Sequence[Server], code: str, remedy: str) -> Iterator[Finding]:
    """Yield a finding for each of the servers, each called ``name``; errors, of ``code``, only where none answers."""
    unreached = refusals(servers)
    for server in servers:
        if server not in unreached:
            yield in_order(subject, f"the {name} answers at {server}")
            continue
        message = f"no {name} answers at {server}: {unreached[server]}"
        if len(unreached) == len(servers):
            yield from broken(subject, RivetError(code, message, remediation=remedy))
        else:
            yield doubtful(subject, message, remedy)
