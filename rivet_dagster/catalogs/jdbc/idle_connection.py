"""A connection that stays open for a moment after its use, since a run asks its database many short questions."""

from __future__ import annotations

import threading
from typing import Generic, Protocol, TypeVar

SECONDS = 2.0
"""For how long nobody may use an open connection."""


class _Closeable(Protocol):
    def close(self) -> None: ...


Connection = TypeVar("Connection", bound=_Closeable)


class IdleConnection(Generic[Connection]):
    """At most one open connection that nobody uses; it is closed after ``SECONDS``. All threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: tuple[Connection, threading.Timer] | None = None

    def take(self) -> Connection | None:
        """Return the connection, which is the caller's from now on; None without one."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is None:
            return None
        connection, timer = kept
        timer.cancel()
        return connection

    def keep(self, connection: Connection) -> None:
        """Keep a connection that is in no transaction; close it if another one is kept."""
        timer = threading.Timer(SECONDS, self._close, [connection])
        timer.daemon = True
        with self._lock:
            if self._kept is None:
                self._kept = connection, timer
                timer.start()
                return
        connection.close()

    def _close(self, connection: Connection) -> None:
        with self._lock:
            if self._kept is None or self._kept[0] is not connection:
                return
            self._kept = None
        connection.close()
