"""A proxy in front of a PostgreSQL server that loses its answer to a COMMIT, and the connection with it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class PostgresProxy:
    """The proxy at ``port``; the answer to the next COMMIT is lost once ``lose`` is set, and counted in ``lost``."""

    def __init__(self, server: int) -> None:
        self.lose = threading.Event()
        self.lost = 0
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                loses = threading.Event()
                for work in (self._requests, self._answers):
                    threading.Thread(target=work, args=(client, server, loses), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, loses: threading.Event) -> None:
        with suppress(OSError):
            while request := client.recv(1 << 16):
                if self.lose.is_set() and b"COMMIT" in request:
                    self.lose.clear()
                    loses.set()
                server.sendall(request)
            server.shutdown(socket.SHUT_WR)

    def _answers(self, client: socket.socket, server: socket.socket, loses: threading.Event) -> None:
        with suppress(OSError), client, server:
            while answer := server.recv(1 << 16):
                if loses.is_set():
                    self.lost += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(answer)


@contextmanager
def postgres_proxy(server: int) -> Iterator[PostgresProxy]:
    """Yield a proxy in front of the server at the port ``server``."""
    proxy = PostgresProxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
