"""A proxy in front of a database server that loses a COMMIT, or the answer to it, and the connection with it."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_COMMIT = re.compile(rb"COMMIT(?![A-Z])")


class CommitProxy:
    """The proxy at ``port``; the answer to the next COMMIT is lost once ``lose`` is set, and counted in ``lost``.

    Unless it ``forwards``, the COMMIT itself is lost.
    """

    def __init__(self, server: int, forwards: bool) -> None:
        self.lose = threading.Event()
        self._forwards = forwards
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
                if self.lose.is_set() and _COMMIT.search(request):
                    self.lose.clear()
                    loses.set()
                    if not self._forwards:
                        self.lost += 1
                        client.shutdown(socket.SHUT_RDWR)
                        break
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
def commit_proxy(server: int, forwards: bool = True) -> Iterator[CommitProxy]:
    """Yield a proxy in front of the server at the port ``server``."""
    proxy = CommitProxy(server, forwards)
    try:
        yield proxy
    finally:
        proxy.close()
