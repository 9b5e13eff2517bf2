"""Ports of this machine, and the processes that listen on them.

Any user of the machine can listen on a port that is free for a moment. So nothing is sent to a server before it is
known that the socket which listens there is one of the server's own process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ADDRESS = "127.0.0.1"
"""The address of servers. The name `localhost` may have others, too, at which other processes listen."""

_PROC = Path("/proc")
_LISTENING = "0A"


@dataclass(frozen=True)
class Listener:
    """The socket by which the process ``pid`` listens: its descriptor and its number, where the system tells them."""

    pid: int
    descriptor: int | None = None
    number: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the process still has the socket, so that nobody else can listen on its port."""
        if self.descriptor is None:
            return _is_alive(self.pid)
        return _socket_at(self.pid, self.descriptor) == self.number


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        return int(free.getsockname()[1])


def is_taken(port: int) -> bool:
    """Return whether another process listens on a port."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does: closed connections don't matter
        try:
            tried.bind((ADDRESS, port))
        except OSError:
            return True
    return False


def listener_of(pid: int, port: int) -> Listener | None:
    """Return the socket by which a process of this user listens on a port; None if it does not, whoever else does.

    >>> with socket.create_server((ADDRESS, 0)) as server:
    ...     port = server.getsockname()[1]
    ...     listener_of(os.getpid(), port).is_open, listener_of(os.getppid(), port)
    (True, None)
    """
    if not (_PROC / "net" / "tcp").exists():
        return Listener(pid) if _tells_lsof(pid, port) else None
    numbers = {number for table in ("tcp", "tcp6") for number in _listening(table, port)}
    try:
        descriptors = [int(path.name) for path in (_PROC / str(pid) / "fd").iterdir()] if numbers else []
    except OSError:  # it has ended, or is another user's
        return None
    known = ((descriptor, _socket_at(pid, descriptor)) for descriptor in descriptors)
    return next((Listener(pid, at, number) for at, number in known if number in numbers), None)


def _listening(table: str, port: int) -> list[int]:
    """Return the numbers of the sockets that listen on a port, at the address of servers or at all."""
    try:
        lines = (_PROC / "net" / table).read_text().splitlines()[1:]
    except FileNotFoundError:  # a system without IPv6
        return []
    own = f"{int.from_bytes(socket.inet_aton(ADDRESS), sys.byteorder):08X}"
    mapped = f"{'0' * 16}{int.from_bytes(bytes.fromhex('0000ffff'), sys.byteorder):08X}{own}"
    wanted = {f"{address}:{port:04X}" for address in (own, mapped, "0" * 8, "0" * 32)}
    fields = (line.split() for line in lines)
    return [int(known[9]) for known in fields if known[1] in wanted and known[3] == _LISTENING]


def _socket_at(pid: int, descriptor: int) -> int | None:
    with suppress(OSError, ValueError):
        kind, _, number = os.readlink(_PROC / str(pid) / "fd" / str(descriptor)).partition(":")
        return int(number.strip("[]")) if kind == "socket" else None
    return None


def _tells_lsof(pid: int, port: int) -> bool:
    """Ask ``lsof``, on systems without ``/proc``."""
    command = ["lsof", "-nP", "-a", "-p", str(pid), f"-iTCP:{port}", "-sTCP:LISTEN", "-t"]
    path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=path)
    return str(pid) in answer.stdout.split()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:  # it has ended, and its number may be that of another user's process
        return False
    return True
