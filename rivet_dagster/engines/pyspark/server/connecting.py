"""Sessions on the project's own server."""

from __future__ import annotations

import os
from typing import Any

from rivet_dagster.engines.pyspark.connect import ConnectAdapter
from rivet_dagster.engines.pyspark.launch import not_connected, refuse_another_application, require_imports
from rivet_dagster.engines.pyspark.server.ports import ADDRESS
from rivet_dagster.engines.pyspark.server.used_server import UsedServer
from rivet_dagster.engines.pyspark.spark_home import refuse_unfit_client
from rivet_dagster.errors import RivetError


def connected_to(server: UsedServer) -> ConnectAdapter:
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
