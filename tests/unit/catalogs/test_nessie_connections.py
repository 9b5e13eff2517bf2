"""Connections to a server of Nessie, which requests of one process share, and those of another one do not."""

import json
import multiprocessing
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog
from rivet_dagster.catalogs.iceberg.nessie.one_commit import OneCommit
from rivet_dagster.catalogs.iceberg.nessie.server import NessieServer, Reference


class Server(ThreadingHTTPServer):
    """A server that has one branch, and counts the connections that it accepts."""

    connections = 0

    def process_request(self, *request: object) -> None:
        self.connections += 1
        super().process_request(*request)  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # whose connections stay open

    def do_GET(self) -> None:
        content = json.dumps({"reference": {"type": "BRANCH", "name": "main", "hash": "c0ffee"}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(uri: str, answers: "multiprocessing.Queue[str]") -> None:
    answers.put(NessieServer(uri).reference("main").hash)


def test_requests_of_a_process_share_a_connection_and_a_forked_process_has_its_own(server: Server) -> None:
    uri = f"http://127.0.0.1:{server.server_port}/api/v2"
    for _ in range(3):  # of clients that know nothing of each other, as those of each catalog do
        assert NessieServer(uri).reference("main").hash == "c0ffee"
    assert server.connections == 1
    forking = multiprocessing.get_context("fork")
    answers = forking.Queue()
    child = forking.Process(target=ask, args=(uri, answers))
    child.start()
    assert answers.get(timeout=60) == "c0ffee"
    child.join(60)
    assert (child.exitcode, server.connections) == (0, 2)
    assert NessieServer(uri).reference("main").hash == "c0ffee"
    assert server.connections == 2


def test_one_commit_asks_once_for_the_contents_of_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[tuple[str, ...]]] = []

    def contents(server: NessieServer, reference: str, keys: list[tuple[str, ...]]) -> tuple[str, dict]:
        asked.append(list(keys))
        return "c0ffee", {key: {"type": "NAMESPACE"} for key in keys if len(key) == 1}

    monkeypatch.setattr(NessieServer, "contents", contents)
    monkeypatch.setattr(NessieServer, "reference", lambda server, name: Reference(name, "c0ffee"))
    for tables in (3, 300):
        asked.clear()
        keys = [("shop", f"t{number}") for number in range(tables)]
        branch = NessieCatalog("lake", uri="http://nowhere.invalid/api/v2", warehouse="/lake", ref="main")
        commit = OneCommit(branch)
        commit.look_up([("shop",), *keys, ("shop",)])
        assert all(not commit.table_exists(key) for key in keys)
        assert commit.namespace_exists(("shop",))
        assert asked == [[("shop",), *keys]]
