"""The server of an engine with ``remote: local``, in use by this process."""

from __future__ import annotations

import time

from rivet_dagster.engines.pyspark.server.files import Users
from rivet_dagster.engines.pyspark.server.ports import Listener, listener_of
from rivet_dagster.engines.pyspark.server.record import ServerRecord, recorded
from rivet_dagster.engines.pyspark.server.starting import ServerSpec, ensure_server, last_lines
from rivet_dagster.errors import RivetError

_REASON_SECONDS = 3.0
"""How long the supervisor may take to write down how the server has ended."""
_POLL_SECONDS = 0.1


class UsedServer:
    """A running server, which does not end for want of users as long as this object, or an adapter on it, exists."""

    def __init__(self, spec: ServerSpec, record: ServerRecord, users: Users) -> None:
        self._spec = spec
        self.record = record
        self._users = users

    @classmethod
    def ensure(cls, spec: ServerSpec) -> UsedServer:
        """Find the server, or start it. Raises what ``ensure_server`` does."""
        record, users = ensure_server(spec)
        return cls(spec, record, users)

    @property
    def is_running(self) -> bool:
        """Whether it still runs."""
        return self.record.is_running

    def listener(self) -> Listener:
        """Return the socket by which it listens. Raises RVT-521 if it does not: somebody else may, on its port."""
        found = listener_of(self.record.pid, self.record.port) if self.is_running else None
        if found is None:
            raise self.not_listening()
        return found

    def not_listening(self) -> RivetError:
        """Return the error for a server that does not listen on its port any more: it has ended, or is about to."""
        if not self.is_running:
            return self.ended()
        message = f"the Spark server (pid {self.record.pid}) does not listen on port {self.record.port} any more"
        return RivetError("RVT-521", message, remediation="End it with `rivet-dagster spark stop`, then run it again.")

    @property
    def sees_local_files(self) -> bool:
        """Whether its executors run on this machine."""
        return self.record.master.startswith("local")

    def ended(self) -> RivetError:
        """Return the error for what ran on the server when it ended."""
        deadline = time.monotonic() + _REASON_SECONDS
        while recorded(self._spec.files) == self.record and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        reason = last_lines(self._spec.files, 1)
        message = f"the Spark server (pid {self.record.pid}) has ended while this ran on it"
        return RivetError("RVT-521", f"{message}: {reason}" if reason else message)
