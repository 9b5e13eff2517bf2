"""Ending a server."""

from __future__ import annotations

import os
import signal
import time

from rivet_dagster.engines.pyspark.server.files import ServerFiles
from rivet_dagster.engines.pyspark.server.record import ServerRecord, running
from rivet_dagster.errors import RivetError

GRACE_SECONDS = 10.0
"""How long Spark may take to end by itself, before it is killed."""
_POLL_SECONDS = 0.1


def stop_running(files: ServerFiles) -> ServerRecord | None:
    """End the server that runs, and return it; None if none does. Raises RVT-502 if it cannot be ended."""
    if not files.folder.is_dir():
        return None
    with files.starting():  # one that starts now is ended, too
        record = running(files)
        if record is not None:
            stop_server(record)
            files.record.unlink(missing_ok=True)
    return record


def stop_server(record: ServerRecord) -> None:
    """End the server of a record, and wait until it has ended. Raises RVT-502 if it cannot be ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        # Each time before a signal is sent: the number of the process may be another's by now.
        if not record.is_running:
            return
        try:
            os.kill(record.pid, number)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise RivetError("RVT-502", f"the server (pid {record.pid}) cannot be ended: {error.strerror}") from error
        if _ended(record, GRACE_SECONDS):
            return
    raise RivetError("RVT-502", f"the server (pid {record.pid}) does not end, even killed")


def _ended(record: ServerRecord, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while record.is_running:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
