"""Start of the helper, and receipt of its values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO

from rivet_dagster.cache import CompileCache, key_of
from rivet_dagster.compiler.helper.share import request, share_of
from rivet_dagster.model.introspection import Introspection
from rivet_dagster.model.joint import SQL, Joint
from rivet_dagster.project.cache_file import values_in

LEAST_QUERIES = 3_000
"""The number of SQL joints from which a helper saves more time than its start takes."""

_PATIENCE = 60.0
"""The seconds for which its values are awaited once they are needed; the process may have been stopped."""

_COMMAND = "from rivet_dagster.compiler.helper.work import main; main()"


@contextmanager
def helper(joints: Sequence[Joint], introspection: Introspection, cache: CompileCache) -> Iterator[None]:
    """Let a second process compute values that are missing in ``cache`` while the block runs.

    It never changes the result: a value that it does not return is computed here. It is only started for a large
    project without any cache, where there is a second processor.
    """
    many = sum(joint.type == SQL for joint in joints) >= LEAST_QUERIES
    if cache.known or not many or not sys.executable or _processors() < 2:
        yield
        return
    share = share_of(joints)
    with ExitStack() as stack:
        with suppress(OSError):  # no room for files or processes
            # Files instead of pipes: neither process has to wait until the other one reads.
            asked, answer = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            asked.write(json.dumps(request(share, introspection)).encode())
            asked.seek(0)
            process = _started(asked, answer)
            stack.callback(_stop, process)
            keys = frozenset(key_of("query", joint.sql) for joint in share if joint.sql is not None)
            cache.await_values(keys, lambda: _received(process, answer))
        yield


def _processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _started(asked: IO[bytes], answer: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-c", _COMMAND]  # -P: nothing is imported from the working directory
    return subprocess.Popen(command, stdin=asked, stdout=answer, stderr=subprocess.DEVNULL)


def _received(process: subprocess.Popen[bytes], answer: IO[bytes]) -> dict[str, str]:
    """Return the helper's values; none where it failed, was killed, or is of another version."""
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        return {}
    answer.seek(0)
    return values_in(answer.read())


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
