"""Facts about a Dagster instance that only Dagster's own command line reports."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping

_SECONDS = 120.0
_PROGRAM = """
import sys
from importlib.metadata import entry_points
(script,) = entry_points(group="console_scripts", name=sys.argv[1])
sys.argv = sys.argv[1:]
script.load()()
"""
_LIMIT = re.compile(r'^"(?P<pool>.+)": \d+ / (?P<limit>\d+) slots occupied$', re.MULTILINE)


def console_script(name: str) -> list[str]:
    """Return the command that runs an installed console script with this Python; the script need not be on PATH."""
    return [sys.executable, "-c", _PROGRAM, name]


def pool_limits(environ: Mapping[str, str]) -> dict[str, int] | None:
    """Return the limits of the pools that have one; None where the instance's storage does not support limits."""
    done = _call(environ, "dagster", "instance", "concurrency", "get", "--all")
    return limits_in(done.stdout) if done.returncode == 0 else None


def limits_in(text: str) -> dict[str, int]:
    """Parse the output of `dagster instance concurrency get --all`.

    >>> limits_in('Concurrency limits:\\n"rivet_spark": 0 / 2 slots occupied\\n')
    {'rivet_spark': 2}
    """
    return {match["pool"]: int(match["limit"]) for match in _LIMIT.finditer(text)}


def daemon_lives(environ: Mapping[str, str]) -> bool:
    """Return whether all daemons that the instance needs have sent a recent heartbeat."""
    return _call(environ, "dagster-daemon", "liveness-check").returncode == 0


def _call(environ: Mapping[str, str], script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*console_script(script), *arguments],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
