"""The record of a running server, and whether its process is still the one that was recorded.

Ending a server.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rivet_dagster.engines.pyspark.server.files import ServerFiles
from rivet_dagster.errors import RivetError
from rivet_dagster.file_replacement import replace_file
from rivet_dagster.secrets.redaction import remember

HOST = "localhost"
"""Spark's client sends a token without TLS to a host of this name alone."""


@dataclass(frozen=True)
class ServerRecord:
    """A server: its process and when that began, its port and token, and the digests of the settings it has.

    ``marker`` is a part of its command line.
    """

    pid: int
    began: str
    marker: str
    port: int
    master: str
    settings: Mapping[str, str]
    token: str = field(repr=False)

    @property
    def address(self) -> str:
        """The address without the token."""
        return f"sc://{HOST}:{self.port}"

    @property
    def remote(self) -> str:
        """The address with the token, if there is one, as Spark's client takes it."""
        return f"{self.address}/;token={self.token}" if self.token else self.address

    @property
    def is_running(self) -> bool:
        """Whether the process is there and is the server, and not another one that got its number."""
        state = process_state(self.pid)
        return state is not None and state.began == self.began and self.marker in state.command


def read_record(files: ServerFiles) -> ServerRecord | None:
    """Return what is recorded, whether or not the server still runs; None if that cannot be read as a server."""
    try:
        record = ServerRecord(**json.loads(files.record.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None  # none, or one of another release
    if record.token:
        remember(record.token)
    return record


def find_running(files: ServerFiles) -> ServerRecord | None:
    """Return the server that runs, None if none does."""
    record = read_record(files)
    return record if record is not None and record.is_running else None


def write_record(files: ServerFiles, record: ServerRecord) -> None:
    """Record a server, so that no other process sees a part of the record."""
    written = files.record.with_suffix(".new")
    files.open_private(written).close()
    replace_file(files.record, json.dumps(asdict(record), indent=2).encode(), written)


def digests(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which a server starts in a form that shows no secrets; those of sessions are left out.

    >>> sorted(digests({"spark.driver.memory": "2g", "spark.sql.catalog.lake.uri": "https://lake"}))
    ['spark.driver.memory']
    """
    return {
        key: hashlib.sha256(f"{key}={value}".encode()).hexdigest()[:16]
        for key, value in settings.items()
        if not key.startswith("spark.sql.catalog.")
    }


def changed_settings(record: ServerRecord, settings: Mapping[str, str]) -> list[str]:
    """Return the names of the settings in which a server differs from ``settings``."""
    wanted = digests(settings)
    return sorted(key for key in {*record.settings, *wanted} if record.settings.get(key) != wanted.get(key))


_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessState:
    """When a process began, in the system's own form, and its command line."""

    began: str
    command: str


def process_state(pid: int) -> ProcessState | None:
    """Return the state of a process, None if there is none of that number, or it has ended.

    >>> import os
    >>> "python" in process_state(os.getpid()).command
    True
    """
    return _of_proc(pid) if (_PROC / "self" / "stat").exists() else _of_ps(pid)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used; 0 where the system does not tell.

    >>> import os
    >>> cpu_seconds(os.getpid()) >= 0
    True
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _of_proc(pid: int) -> ProcessState | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
        command = (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    # The name of the program stands in parentheses and may contain spaces; state and beginning are fields 3 and 22.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else ProcessState(f"{_boot()} {fields[19]}", command)


def _boot() -> str:
    return (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()


def _of_ps(pid: int) -> ProcessState | None:
    """Ask ``ps``, on systems without ``/proc``."""
    answer = subprocess.run(
        ["ps", "-ww", "-p", str(pid), "-o", "state=,lstart=,command="],
        capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": "/bin:/usr/bin"},
    )  # fmt: skip
    words = answer.stdout.split(maxsplit=6)
    if answer.returncode != 0 or len(words) < 7 or words[0].startswith("Z"):
        return None
    return ProcessState(" ".join(words[1:6]), words[6])


GRACE_SECONDS = 10.0
"""How long Spark may take to end by itself, before it is killed."""
_POLL_SECONDS = 0.1


def stop_running(files: ServerFiles) -> ServerRecord | None:
    """End the server that runs, and return it; None if none does. Raises RVT-502 if it cannot be ended."""
    if not files.folder.is_dir():
        return None
    with files.starting():  # one that starts now is ended, too
        record = find_running(files)
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
