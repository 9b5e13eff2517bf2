"""The command that starts a Sail server, and its environment."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rivet_dagster.engines.pyspark.server.sail_settings import server_variables


def sail_command(address: str, port: int) -> list[str]:
    """Return the command of a server that listens at the address alone.

    >>> print(*sail_command("127.0.0.1", 15002)[1:])
    -P -m pysail spark server --ip 127.0.0.1 --port 15002
    """
    # -P: modules of the current folder could hide others.
    return [sys.executable, "-P", "-m", "pysail", "spark", "server", "--ip", address, "--port", str(port)]


def sail_environ(environ: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: that of the project's user, with the settings of the engine above it.

    >>> sail_environ({"PATH": "/bin"}, {"sail.runtime.stack_size": "8"})["SAIL_RUNTIME__STACK_SIZE"]
    '8'
    """
    return {**environ, **server_variables(settings)}
