"""Finding the server of an engine, or starting it."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from rivet_dagster.engines.pyspark.config import LOCAL
from rivet_dagster.engines.pyspark.server.command import Order
from rivet_dagster.engines.pyspark.server.files import ServerFiles, Users
from rivet_dagster.engines.pyspark.server.kinds import KINDS, ServerKind
from rivet_dagster.engines.pyspark.server.ports import is_taken
from rivet_dagster.engines.pyspark.server.record import (
    ServerRecord,
    changed_settings,
    digests,
    find_running,
    stop_server,
)
from rivet_dagster.engines.pyspark.spark_home import module_command
from rivet_dagster.errors import RivetError
from rivet_dagster.secrets.redaction import redacted

_POLL_SECONDS = 0.1
_LOG_LINES = 5
_MAIN = "rivet_dagster.engines.pyspark.server.supervisor"


@dataclass(frozen=True)
class ServerSpec:
    """The server that an engine wants: ``config`` are its settings, ``home`` Spark's distribution, if not pyspark's."""

    files: ServerFiles
    config: dict[str, str] = field(repr=False)
    home: Path | None
    idle_seconds: float
    archives: Path | None = None
    """The folder of archives of loaded classes."""
    kind: ServerKind = KINDS[LOCAL]

    @property
    def settings(self) -> dict[str, str]:
        """The settings that the server starts with."""
        return self.kind.settings(self.config)


def ensure_server(spec: ServerSpec) -> tuple[ServerRecord, Users]:
    """Return the running server, started if need be, and the lock that says that this process uses it.

    A server that was started with other settings is replaced if nobody uses it. Raises RVT-108, RVT-111, RVT-112,
    RVT-127, RVT-128, RVT-502, and RVT-522 if others use a server with other settings.
    """
    spec.files.create_folder()
    with spec.files.starting() as lock:
        users = spec.files.users()
        try:
            record = find_running(spec.files)
            if record is not None and (different := changed_settings(record, spec.settings)):
                _end_unused(spec, record, users, different)
                record = None
            users.join()
            # Now it cannot end for want of users, but may have ended before.
            if record is None or not record.is_running:
                record = _start(spec, lock)
        except BaseException:
            users.close()
            raise
    return record, users


def _end_unused(spec: ServerSpec, record: ServerRecord, users: Users, different: list[str]) -> None:
    """End a server with other settings. Raises RVT-522 if others use it."""
    if not users.alone():
        names = ", ".join(different)
        server = f"the {spec.kind.title} of the engine '{spec.files.engine}' (pid {record.pid})"
        raise RivetError("RVT-522", f"{server} was started with other values of {names}, and is in use")
    stop_server(record)
    users.leave()


def _start(spec: ServerSpec, lock: int) -> ServerRecord:
    """Start a supervisor, and wait until it has recorded the server."""
    order = _order(spec, lock)
    log = spec.files.open_private(spec.files.log)
    command = module_command(_MAIN, spec.files.engine)
    with log:
        supervisor = subprocess.Popen(
            command,
            cwd=order.root,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
            pass_fds=(lock,),
            start_new_session=True,  # it outlives this process and its terminal
        )
    assert supervisor.stdin is not None
    with supervisor.stdin as pipe:
        pipe.write(order.to_json())
    while (code := supervisor.poll()) is None:
        if (record := find_running(spec.files)) is not None:
            return record
        time.sleep(_POLL_SECONDS)
    raise _not_started(spec, code)


def _order(spec: ServerSpec, lock: int) -> Order:
    """Return the order for a supervisor, after checks of all that can be known before the server starts."""
    kind, settings = spec.kind, spec.settings
    kind.check(spec.config, spec.home)
    if kind.port in settings and is_taken(int(settings[kind.port])):
        message = f"the {kind.title} cannot start: another process listens on port {settings[kind.port]}"
        raise RivetError("RVT-502", message, remediation=f"Stop it, or change `{kind.port}` in the engine's `config`.")
    return Order(
        str(spec.files.root),
        spec.files.engine,
        spec.files.kind,
        kind.remote,
        settings,
        digests(settings),
        spec.idle_seconds,
        lock,
        kind.token(spec.config),
        None if spec.home is None else str(spec.home),
        None if spec.archives is None else str(spec.archives),
    )


def _not_started(spec: ServerSpec, code: int) -> RivetError:
    """Return the error of a server that has ended before it answered, with the end of its log."""
    text = last_lines(spec.files, _LOG_LINES) or f"exit code {code}"
    if (error := spec.kind.start_error(spec.config, text)) is not None:
        return error
    remedy = f"Its log says more: {spec.files.log}; correct the engine's `config`."
    return RivetError("RVT-502", f"the {spec.kind.title} did not start: {text}", remediation=remedy)


def last_lines(files: ServerFiles, number: int) -> str:
    """Return the last lines of the log in one line, without stack traces; empty if there is no log."""
    lines = files.end_of_log().splitlines()
    useful = [line.strip() for line in lines if line.strip() and not line.startswith(("\t", "    at "))]
    return redacted(" | ".join(useful[-number:]))
