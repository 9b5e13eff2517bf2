"""A cluster of Databricks: its address leads to a server of Spark Connect, with the headers that it is found by."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import connect, connect_proxy, databricks_cluster


@pytest.fixture
def host(tmp_path):
    """Yield the host and port of a proxy in front of a server."""
    with connect.connect_server(tmp_path) as address:
        arguments = [address.rpartition(":")[2], databricks_cluster.TOKEN, databricks_cluster.CLUSTER]
        command = [sys.executable, connect_proxy.__file__, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stdout is not None
            try:
                yield f"localhost:{int(proxy.stdout.readline())}"
            finally:
                proxy.kill()


@pytest.mark.nightly
def test_a_cluster_conforms(host):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environ = {**os.environ, databricks_cluster.HOST: host}
    done = subprocess.run(
        [*command, Path(databricks_cluster.__file__)], env=environ, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "[100%]" in done.stdout
