"""Sessions on the project's own server, and its use by this process."""

from __future__ import annotations

import os
import time
from typing import Any

from rivet_dagster.engines.pyspark.connect import ConnectAdapter
from rivet_dagster.engines.pyspark.launch import not_connected, refuse_another_application, require_imports
from rivet_dagster.engines.pyspark.server.files import Users
from rivet_dagster.engines.pyspark.server.ports import ADDRESS, Listener, listener_of
from rivet_dagster.engines.pyspark.server.record import ServerRecord, read_record
from rivet_dagster.engines.pyspark.server.starting import ServerSpec, ensure_server, last_lines
from rivet_dagster.engines.pyspark.spark_home import refuse_unfit_client
from rivet_dagster.errors import RivetError


def connect_to_server(server: UsedServer) -> ConnectAdapter:
    """Begin a session on the server. Raises RVT-123, RVT-128, RVT-502, RVT-506, RVT-521."""
    refuse_another_application({"spark.remote": server.record.remote})
    require_imports(remote=True)
    from pyspark.sql.connect.session import SparkSession

    # As pyspark's own builder does; its functions make expressions for one of the two kinds of session.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    channel = _channel_to(server)
    try:
        session: Any = SparkSession.builder.channelBuilder(channel).create()
        adapter = ConnectAdapter(session, server)
        version = adapter.spark.version
    except RivetError:
        raise
    except Exception as error:
        if not server.is_running:
            raise server.ended() from error
        raise not_connected(error, server.record.address) from error
    adapter.close_at_exit()
    refuse_unfit_client(version)
    return adapter


def _channel_to(server: UsedServer) -> Any:
    """Return the builder of channels to the server itself, which send nothing to others that listen on its port.

    Before each request it is looked whether the server still has the socket by which it listened when this was called.
    Raises RVT-521.
    """
    from grpc import StreamUnaryClientInterceptor, UnaryStreamClientInterceptor, UnaryUnaryClientInterceptor
    from pyspark.sql.connect.client import DefaultChannelBuilder

    listener = server.listener()

    class OnlyToTheServer(UnaryUnaryClientInterceptor, UnaryStreamClientInterceptor, StreamUnaryClientInterceptor):  # type: ignore[misc]
        def checked(self, continuation: Any, details: Any, request: Any) -> Any:
            if not listener.is_open:
                raise server.not_listening()
            return continuation(details, request)

        intercept_unary_unary = intercept_unary_stream = intercept_stream_unary = checked

    class Channel(DefaultChannelBuilder):
        @property
        def endpoint(self) -> str:
            return f"ipv4:{ADDRESS}:{server.record.port}"

    # The proxy of this machine leads to others. A request that was not sent is sent again by pyspark, after that look.
    channel = Channel(server.record.remote, [("grpc.enable_http_proxy", 0), ("grpc.enable_retries", 0)])
    channel.add_interceptor(OnlyToTheServer())
    return channel


_REASON_SECONDS = 3.0
"""How long the supervisor may take to write down how the server has ended."""
_POLL_SECONDS = 0.1


class UsedServer:
    """A running server, which does not end for want of users as long as this object, or an adapter on it, exists."""

    def __init__(self, spec: ServerSpec, record: ServerRecord, users: Users) -> None:
        self.spec = spec
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
        message = f"{self._named} does not listen on port {self.record.port} any more"
        return RivetError("RVT-521", message, remediation="End it with `rivet-dagster spark stop`, then run it again.")

    @property
    def sees_local_files(self) -> bool:
        """Whether its executors run on this machine."""
        return self.record.master.startswith("local")

    @property
    def _named(self) -> str:
        return f"the {self.spec.kind.title} (pid {self.record.pid})"

    def ended(self) -> RivetError:
        """Return the error for what ran on the server when it ended."""
        deadline = time.monotonic() + _REASON_SECONDS
        while read_record(self.spec.files) == self.record and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        reason = last_lines(self.spec.files, 1)
        message = f"{self._named} has ended while this ran on it"
        return RivetError("RVT-521", f"{message}: {reason}" if reason else message)
