"""Servers that a run needs, and whether they accept connections.

Findings of servers of which any one is enough.

The free space of a file system, and whether a folder can be written to.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order

SECONDS = 3.0
"""The seconds that a connection may take."""


@dataclass(frozen=True)
class Server:
    """A server by its host and port."""

    host: str
    port: int

    def refusal(self) -> str | None:
        """Return why there is no connection to the server, None if there is one."""
        try:
            socket.create_connection((self.host, self.port), timeout=SECONDS).close()
        except (OSError, UnicodeError) as error:  # the latter of a host that is no name
            return getattr(error, "strerror", None) or str(error)
        return None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def servers_in(addresses: str, port: int) -> tuple[Server, ...]:
    """Return the servers of one or more URLs, or the hosts of one, with commas between them.

    ``port`` is that of addresses without one; what is no address is left out.

    >>> print(*servers_in("thrift://meta1:9084,thrift://meta2", 9083))
    meta1:9084 meta2:9083
    >>> print(*servers_in("spark://a:7077,b:7078", 7077), *servers_in("https://ann:secret@[::1]/api", 443))
    a:7077 b:7078 [::1]:443
    """
    servers = []
    for address in addresses.split(","):
        try:
            url = urlsplit(re.sub(r"^(.*?://)?", "//", address.strip(), count=1))
            if url.hostname:
                servers.append(Server(url.hostname, url.port or port))
        except ValueError:
            continue
    return tuple(servers)


def web_servers(url: str) -> tuple[Server, ...]:
    """Return the server of an http or https URL; none where requests go through a proxy, which alone may reach it.

    >>> print(*web_servers("https://store.invalid/bucket"))
    store.invalid:443
    """
    kind = urlsplit(url).scheme
    servers = servers_in(url, 80 if kind == "http" else 443)
    return () if kind in getproxies() and not all(proxy_bypass(server.host) for server in servers) else servers


def refusals(servers: Iterable[Server]) -> dict[Server, str]:
    """Return the servers to which there is no connection, and why."""
    asked = {server: server.refusal() for server in servers}
    return {server: why for server, why in asked.items() if why is not None}


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


LITTLE = 2**30
"""The bytes below which free space is little: a version is staged beside the one that readers see."""

_REMEDY = "Free space on that file system, or take a folder on another one."


def free_space(folder: Path) -> int:
    """Return the bytes that this user can still write where ``folder`` is or will be; 0 if no file can be created.

    Raises OSError.
    """
    status = os.statvfs(_existing(folder))
    # Some file systems do not count files.
    return 0 if status.f_files and not status.f_favail else status.f_bavail * status.f_frsize


def amount(number: int) -> str:
    """Return a number of bytes as text.

    >>> amount(5 * 2**30), amount(300 * 2**20)
    ('5.0 GiB', '300 MiB')
    """
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number // 2**20} MiB"


def little_space(subject: str, folder: Path, shown: str) -> Iterator[Finding]:
    """Yield a warning if there is little space where ``folder`` is or will be. Raises OSError."""
    free = free_space(folder)
    if free < LITTLE:
        yield doubtful(subject, f"{shown}: only {amount(free)} free", _REMEDY)


def try_to_write(folder: Path) -> None:
    """Create a file where ``folder`` is or will be, and remove it again. Raises OSError."""
    with TemporaryDirectory(prefix=".rivet-doctor-", dir=_existing(folder)) as name:
        Path(name, "file").write_bytes(b"x")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if os.path.exists(path))
