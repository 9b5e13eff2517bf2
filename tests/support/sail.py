"""A server of Sail for the tests that compare its rows with Spark's."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SECONDS = 60


@contextmanager
def sail_session() -> Iterator[Any]:
    """Yield a session on a server that ends with the block."""
    from pyspark.sql.connect.session import SparkSession

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "pysail", "spark", "server", "--ip", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(port, server)
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        yield session
        session.stop()
    finally:
        server.terminate()
        server.wait()


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        assert server.poll() is None, "Sail has ended"
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("Sail does not listen")
