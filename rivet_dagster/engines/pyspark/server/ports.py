"""Ports of this machine."""

from __future__ import annotations

import socket

_ADDRESS = "127.0.0.1"


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as free:
        free.bind((_ADDRESS, 0))
        return int(free.getsockname()[1])


def is_taken(port: int) -> bool:
    """Return whether another process listens on a port."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does: closed connections don't matter
        try:
            tried.bind((_ADDRESS, port))
        except OSError:
            return True
    return False


def accepts_connections(port: int) -> bool:
    """Return whether something listens on a port."""
    try:
        socket.create_connection((_ADDRESS, port), 1.0).close()
    except OSError:
        return False
    return True
