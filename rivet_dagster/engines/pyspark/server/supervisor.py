"""The process that starts a server, records it, and ends it when nobody has used it for a while.

It is the parent of the server's process, and independent of the process that asked for the server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import FrameType

from rivet_dagster.engines.pyspark.server.command import Order
from rivet_dagster.engines.pyspark.server.files import ServerFiles
from rivet_dagster.engines.pyspark.server.kinds import KINDS
from rivet_dagster.engines.pyspark.server.ports import free_port, listener_of
from rivet_dagster.engines.pyspark.server.record import (
    GRACE_SECONDS,
    ServerRecord,
    cpu_seconds,
    process_state,
    read_record,
    write_record,
)

_POLL_SECONDS = 0.1
_ABANDONED_SECONDS = 50.0
_BUSY = 0.2
"""The part of a processor from which a server is one that computes."""
_LOOK_SECONDS = 5.0
"""How often it looks whether the server is used."""


def main() -> None:
    """Read the order from stdin and supervise the server until that ends."""
    order = Order.from_json(sys.stdin.read())
    signal.signal(signal.SIGTERM, _exit)
    kind = KINDS[order.kind]
    port = int(order.settings.get(kind.port) or free_port())
    server = kind.start(order, port)
    try:
        if _answers(server, port):
            _record(order, server.pid, port)
            os.close(order.lock)
            _watch(order, server, kind.ends_if_it_computes_for_nobody)
    finally:
        _end(server)
        # Clients show the last line of the log, and wait with that until the server is forgotten.
        print(_ending(server.returncode), flush=True)
        _forget(order.files, server.pid)
    sys.exit(1 if server.returncode else 0)


def _answers(server: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the server itself listens, which it does when it has started; False if it ends before."""
    while server.poll() is None:
        if listener_of(server.pid, port) is not None:
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _record(order: Order, pid: int, port: int) -> None:
    state = process_state(pid)
    if state is None:
        return  # it has ended already
    kind = KINDS[order.kind]
    marker, master = kind.marker(order, port), kind.master(order.settings)
    write_record(order.files, ServerRecord(pid, state.began, marker, port, master, order.digests, order.token))


def _watch(order: Order, server: subprocess.Popen[bytes], idle_alone: bool) -> None:
    """Return when the server has ended, or nobody has used it for long enough; then nobody can begin to use it.

    With ``idle_alone`` also when it computes though nobody uses it.
    """
    users = order.files.users()
    idle_since = time.time()
    look = min(_LOOK_SECONDS, order.idle_seconds / 4)
    computed = cpu_seconds(server.pid)
    while True:
        try:
            server.wait(look)
            return
        except subprocess.TimeoutExpired:
            pass
        order.files.rotate_log()
        if not users.alone():
            idle_since = time.time()
            continue
        idle_since = max(idle_since, users.last_joined)
        before, computed = computed, cpu_seconds(server.pid)
        if idle_alone and time.time() - idle_since >= _ABANDONED_SECONDS and computed - before >= look * _BUSY:
            print("the server computes what nobody waits for any more", flush=True)
            return
        if time.time() - idle_since >= order.idle_seconds:
            print(f"nobody has used the server for {order.idle_seconds:g} s", flush=True)
            return
        users.leave()


def _end(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
    server.wait()


def _forget(files: ServerFiles, pid: int) -> None:
    """Remove the files of this server; another one may have been recorded since."""
    files.settings(os.getpid()).unlink(missing_ok=True)
    record = read_record(files)
    if record is not None and record.pid == pid:
        files.record.unlink(missing_ok=True)


def _ending(code: int | None) -> str:
    """Return a sentence about an exit code.

    >>> _ending(-9), _ending(1)
    ('the server was killed by SIGKILL', 'the server ended with exit code 1')
    """
    if code is not None and code < 0:
        return f"the server was killed by {signal.Signals(-code).name}"
    return f"the server ended with exit code {code}"


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
