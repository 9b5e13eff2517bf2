"""A proxy in front of an HTTP server that gives up on requests, sends them twice, or delays them, as gateways do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

FAULTS = (
    "504 after",
    "502 before",
    "502 after",
    "503 later",
    "cut",
    "cut answer",
    "twice",
    "late",
)
"""What can happen to a request; ``after`` and ``later`` say whether the server has carried it out by then."""


@dataclass
class Proxy:
    """A proxy at ``uri``; the next request that ``strikes`` picks by its method, path and body meets the ``fault``.

    ``struck`` are the paths of those that did. ``settled`` has the server get those that
    were held back.
    """

    uri: str = ""
    fault: str = ""
    strikes: Callable[[str, str, str], bool] = lambda method, path, body: False
    struck: list[str] = field(default_factory=list)
    later: list[threading.Thread] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    def settled(self) -> None:
        """Have the server get the requests that were held back, and wait until it has answered them."""
        self.release.set()
        for thread in self.later:
            thread.join(60)

    def picks(self, method: str, path: str, body: str) -> str:
        """Return the fault that a request meets, empty for none."""
        if not self.fault or not self.strikes(method, path, body):
            return ""
        self.struck.append(path)
        fault, self.fault = self.fault, ""
        return fault


@contextmanager
def proxy(server: str) -> Iterator[Proxy]:
    """Yield a proxy of the server at the URI ``server``, which strikes nothing yet."""
    state = Proxy()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            hop = ("host", "connection", "accept-encoding")
            headers = {key: value for key, value in self.headers.items() if key.lower() not in hop}

            def sent() -> requests.Response:
                return requests.request(
                    self.command, f"{server}{self.path}", data=body, headers=headers, timeout=60, allow_redirects=False
                )

            fault = state.picks(self.command, self.path, body.decode())
            if fault in ("503 later", "late"):
                thread = threading.Thread(target=lambda: (state.release.wait(60), sent()), daemon=True)
                state.later.append(thread)
                thread.start()
            if fault in ("502 before", "503 later"):
                self._answer(502 if fault == "502 before" else 503, b"<html>Bad Gateway</html>")
                return
            if fault == "late":
                state.release.wait(60)  # the client gives up before
                self.close_connection = True
                return
            answer = sent()
            if fault == "twice":
                answer = sent()
            if fault in ("502 after", "504 after"):
                self._answer(int(fault[:3]), b"<html>Gateway Timeout</html>")
            elif fault == "cut":
                self.close_connection = True
            elif fault == "cut answer":
                self._answer(answer.status_code, answer.content, cut=True)
            else:
                self._answer(answer.status_code, answer.content)

        def _answer(self, status: int, content: bytes, cut: bool = False) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cut else content)
            self.close_connection = self.close_connection or cut

        do_GET = do_POST = do_DELETE = do_HEAD = do_PUT = _forward

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *arguments: object) -> None:
            pass  # clients that have given up

    listening = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    state.uri = f"http://127.0.0.1:{listening.server_port}"
    try:
        yield state
    finally:
        state.release.set()
        listening.shutdown()
        listening.server_close()
