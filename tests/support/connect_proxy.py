"""A proxy in front of a server of Spark Connect that, like a workspace of Databricks, looks at tokens and cluster ids.

``python connect_proxy.py SERVER_PORT TOKEN CLUSTER`` prints its own port.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

STREAMED = {"ExecutePlan": (False, True), "ReattachExecute": (False, True), "AddArtifacts": (True, False)}
"""The methods of the service that stream requests, or responses; all others do neither."""


class Proxy(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Passes calls on, as bytes, whose headers have the token and the cluster."""

    def __init__(self, port: int, token: str, cluster: str) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._wanted = {"authorization": f"Bearer {token}", "x-databricks-cluster-id": cluster}

    def service(self, details: Any) -> Any:
        """Return the handler of a call."""
        takes_many, gives_many = STREAMED.get(details.method.rpartition("/")[2], (False, False))
        kinds = {(False, False): "unary_unary", (False, True): "unary_stream", (True, False): "stream_unary"}
        kind = kinds[takes_many, gives_many]
        call = getattr(self._channel, kind)(details.method)
        headers = dict(details.invocation_metadata)

        def passed(request: Any, context: Any) -> Any:
            self._judge(headers, context)
            try:
                return call(request)
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata())
                context.abort(error.code(), error.details())

        def streamed(request: Any, context: Any) -> Iterator[Any]:
            self._judge(headers, context)
            try:
                yield from call(request)
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata())
                context.abort(error.code(), error.details())

        return getattr(grpc, f"{kind}_rpc_method_handler")(streamed if gives_many else passed)

    def _judge(self, headers: dict[str, str], context: Any) -> None:
        for name, value in self._wanted.items():
            if headers.get(name) != value:
                code = grpc.StatusCode.UNAUTHENTICATED if name == "authorization" else grpc.StatusCode.NOT_FOUND
                context.abort(code, f"{name} is not what it has to be")


if __name__ == "__main__":
    server = grpc.server(ThreadPoolExecutor(16), handlers=[Proxy(int(sys.argv[1]), *sys.argv[2:4])])
    print(server.add_secure_port("127.0.0.1:0", grpc.local_server_credentials()), flush=True)
    server.start()
    server.wait_for_termination()
