"""The conformance suite over Spark Connect."""

import os
import subprocess
import sys
from pathlib import Path

from support import connect


def test_spark_connect_is_an_engine_like_any_other(tmp_path):
    with connect.connect_server(tmp_path) as address:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(Path(connect.__file__))]
        environ = {**os.environ, connect.REMOTE: address}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout or "[100%]" in done.stdout
