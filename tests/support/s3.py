"""A server that speaks S3's protocol, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

KEY, SECRET, REGION = "test-access-key", "test-secret-key", "eu-central-1"


@dataclass
class S3:
    """A running server: its URL, and a client of it."""

    endpoint: str
    client: Any
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def bucket(self) -> str:
        """Create a bucket without objects and return its name."""
        name = f"bucket{next(self._numbers)}"
        self.client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        return name

    @property
    def iceberg_options(self) -> dict[str, object]:
        """The keys by which Iceberg's Spark catalog and PyIceberg reach it."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "client.region": REGION,
            "s3.path-style-access": True,
        }


@contextmanager
def s3_server() -> Iterator[S3]:
    """Yield a server without buckets, on this machine alone."""
    import boto3  # these two take a second
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name=REGION
        )
        yield S3(endpoint, client)
    finally:
        server.stop()
