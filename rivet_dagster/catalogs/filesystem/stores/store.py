"""A store: where a catalog's folder is in it, and pyarrow's client of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from rivet_dagster.catalogs.filesystem.stores.store_uri import StoreUri

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 5.0
"""The seconds for which a client waits for a connection, or the next byte of an answer, in each of its attempts."""

ATTEMPTS = 3


class Store:
    """The store of ``uri``, with expanded ``options``; the first use of ``client`` makes it, which contacts nothing."""

    def __init__(self, uri: StoreUri, options: Mapping[str, str]) -> None:
        self.uri = uri
        self.options = options

    @cached_property
    def client(self) -> Any:
        """The file system of pyarrow. Raises OSError if a library that it needs is missing."""
        return _CLIENTS[self.uri.scheme](self.uri, self.options)

    def key(self, path: PurePath) -> str:
        """Return a path from the store's root as the client takes it."""
        return str(path) if self.uri.scheme == "hdfs" else f"{self.uri.bucket}{path}".rstrip("/")


def _s3(uri: StoreUri, options: Mapping[str, str]) -> Any:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    endpoint = urlsplit(options["endpoint"]) if "endpoint" in options else None
    return S3FileSystem(
        access_key=options.get("access_key"),
        secret_key=options.get("secret_key"),
        region=options.get("region"),
        scheme=endpoint.scheme if endpoint else None,
        endpoint_override=endpoint.netloc if endpoint else None,
        connect_timeout=CONNECT_SECONDS,
        request_timeout=ANSWER_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )


def _gs(uri: StoreUri, options: Mapping[str, str]) -> Any:
    from pyarrow.fs import GcsFileSystem

    return GcsFileSystem(retry_time_limit=timedelta(seconds=ATTEMPTS * ANSWER_SECONDS))


def _abfss(uri: StoreUri, options: Mapping[str, str]) -> Any:
    from pyarrow.fs import AzureFileSystem

    account = uri.authority.partition("@")[2].partition(".")[0]
    return AzureFileSystem(account, account_key=options.get("access_key"))


def _hdfs(uri: StoreUri, options: Mapping[str, str]) -> Any:
    from pyarrow.fs import HadoopFileSystem

    return HadoopFileSystem.from_uri(uri.root if uri.authority else "hdfs://default:0")


_CLIENTS = {"s3a": _s3, "gs": _gs, "abfss": _abfss, "hdfs": _hdfs}
