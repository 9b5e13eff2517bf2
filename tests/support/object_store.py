"""A bucket on an S3 server in this process, by moto, with users and rights."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import boto3
import moto.settings
import pytest
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionAuthenticatorMixin
from moto.server import ThreadedMotoServer

REGION = "eu-central-1"


@dataclass
class Bucket:
    """A bucket of the server at ``url``, and the keys of its owner."""

    url: str
    name: str
    owner: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, str]:
        """What a catalog's ``options`` have."""
        return {"endpoint": self.url, "region": REGION, **self.owner}

    def catalog(self, path: str = "raw", **options: Any) -> dict[str, Any]:
        """Return the declaration of a catalog in a folder of the bucket."""
        return {"type": "filesystem", "path": f"s3a://{self.name}/{path}", "options": self.options, **options}

    def put(self, *keys: str, content: bytes | str = b"id\n1\n") -> None:
        """Write objects."""
        for key in keys:
            self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def get(self, key: str) -> bytes:
        """Return the content of an object."""
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def delete(self, key: str) -> None:
        """Delete an object."""
        self.client.delete_object(Bucket=self.name, Key=key)

    def objects(self) -> list[str]:
        """Return the keys of all objects but those that stand for folders."""
        listed = self.client.list_objects_v2(Bucket=self.name).get("Contents", [])
        return [entry["Key"] for entry in listed if not entry["Key"].endswith("/")]

    def make_older(self, key: str, seconds: int = 1) -> None:
        """Move an object's time of modification into the past."""
        stored = get_backend("s3")[DEFAULT_ACCOUNT_ID]["aws"].buckets[self.name].keys[key]
        stored.last_modified -= timedelta(seconds=seconds)

    @property
    def client(self) -> Any:
        """The client of boto3."""
        return _boto3("s3", self.url, self.owner)

    def keys_of_user(self, *actions: str) -> dict[str, str]:
        """Return the keys of a new user who may do these things with the bucket."""
        iam, name = _boto3("iam", self.url, {}), f"user-{uuid4().hex}"
        iam.create_user(UserName=name)
        if actions:
            resource = [f"arn:aws:s3:::{self.name}", f"arn:aws:s3:::{self.name}/*"]
            statement = {"Effect": "Allow", "Action": [f"s3:{action}" for action in actions], "Resource": resource}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            iam.put_user_policy(UserName=name, PolicyName="rights", PolicyDocument=policy)
        made = iam.create_access_key(UserName=name)["AccessKey"]
        return {"access_key": made["AccessKeyId"], "secret_key": made["SecretAccessKey"]}


@contextmanager
def s3_server() -> Iterator[str]:
    """Yield the URL of a server on a free port, which ends with the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def new_bucket(url: str) -> Bucket:
    """Return a new bucket of the server."""
    bucket = Bucket(url, f"lake-{uuid4().hex}")
    bucket.owner = bucket.keys_of_user("*")
    bucket.client.create_bucket(Bucket=bucket.name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return bucket


@contextmanager
def rights_enforced() -> Iterator[None]:
    """Have the server check keys and rights, which it does not do otherwise."""
    with (
        patch.object(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0.0),
        patch.object(ActionAuthenticatorMixin, "request_count", 0),
    ):
        yield


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """Yield the URL of one server for all tests."""
    with s3_server() as url:
        yield url


@pytest.fixture
def bucket(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Return a bucket for each test, to which nothing of this machine's environment leads."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return new_bucket(s3_url)


def _boto3(service: str, url: str, keys: Mapping[str, str]) -> Any:
    given = {f"aws_{name}": keys.get(key, "any") for name, key in _KEYS.items()}
    return boto3.client(service, endpoint_url=url, region_name=REGION, **given)


_KEYS = {"access_key_id": "access_key", "secret_access_key": "secret_key"}
