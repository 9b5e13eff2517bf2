"""Sessions on the project's own server."""

from __future__ import annotations

import os
from typing import Any

from rivet_dagster.engines.pyspark.connect import ConnectAdapter
from rivet_dagster.engines.pyspark.launch import not_connected, refuse_another_application, require_imports
from rivet_dagster.engines.pyspark.server.used_server import UsedServer
from rivet_dagster.engines.pyspark.spark_home import refuse_unfit_client


def connected_to(server: UsedServer) -> ConnectAdapter:
    """Begin a session on the server. Raises RVT-123, RVT-128, RVT-502, RVT-506, RVT-521."""
    refuse_another_application({"spark.remote": server.record.remote})
    require_imports(remote=True)
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession

    # As pyspark's own builder does; its functions make expressions for one of the two kinds of session.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    # The proxy of this machine leads to others.
    channel = DefaultChannelBuilder(server.record.remote, [("grpc.enable_http_proxy", 0)])
    try:
        session: Any = SparkSession.builder.channelBuilder(channel).create()
        adapter = ConnectAdapter(session, server)
        version = adapter.spark.version
    except Exception as error:
        if not server.is_running:
            raise server.ended() from error
        raise not_connected(error, server.record.address) from error
    adapter.close_at_exit()
    refuse_unfit_client(version)
    return adapter
