"""URIs of folders and files in stores, and the kinds of store that there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from rivet_dagster.catalogs.filesystem.catalog_location import is_remote, scheme
from rivet_dagster.errors import nearest
from rivet_dagster.secrets.redaction import redacted

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "s3a": ("endpoint", "access_key", "secret_key", "region"),
    "gs": (),
    "abfss": ("access_key",),
    "hdfs": (),
}
"""By scheme, as Spark spells it, the keys that the ``options`` of a catalog in such a store may have."""

_SPELLINGS = {"s3": "s3a"}
_EXAMPLES = {
    "s3a": "s3a://bucket/folder",
    "gs": "gs://bucket/folder",
    "abfss": "abfss://container@account.dfs.core.windows.net/folder",
    "hdfs": "hdfs://namenode:8020/folder",
}


@dataclass(frozen=True)
class StoreUri:
    """A path in a store. ``authority`` is the bucket, ``container@host`` or the host; ``path`` begins at its root."""

    scheme: str
    authority: str
    path: PurePosixPath

    @classmethod
    def of(cls, uri: str) -> StoreUri:
        """Return the parts of a URI. Raises ValueError, with the end of a sentence about it.

        >>> str(StoreUri.of("s3://lake/raw/")), str(StoreUri.of("s3a://lake"))
        ('s3a://lake/raw', 's3a://lake/')
        """
        written = scheme(uri) or ""
        kind = _SPELLINGS.get(written, written)
        if kind not in OPTIONS:
            known = (*_EXAMPLES, *_SPELLINGS)
            raise ValueError(f"is in a kind of store that is not known, {written}://{nearest(written, known)}")
        rest = uri[len(written) + 1 :]
        authority, _, path = rest.removeprefix("//").partition("/")
        is_named = "@" in authority if kind == "abfss" else kind == "hdfs" or "@" not in authority
        if not rest.startswith("//") or not is_named or not (authority or kind == "hdfs"):
            secrets = " (keys stand in `options`)" if kind == "s3a" and "@" in authority else ""
            raise ValueError(f"must be a URI like {_EXAMPLES[kind]}{secrets}, not {redacted(uri)}")
        return cls(kind, authority, PurePosixPath(f"/{path}"))

    @property
    def root(self) -> str:
        """The URI of the store's root, without a slash at its end."""
        return f"{self.scheme}://{self.authority}"

    @property
    def bucket(self) -> str:
        """The bucket or container.

        >>> StoreUri.of("abfss://raw@account.dfs.core.windows.net/x").bucket
        'raw'
        """
        return self.authority.partition("@")[0]

    def __str__(self) -> str:
        return f"{self.root}{self.path}"


def elsewhere(path: str, table: str) -> str | None:
    """Return what is wrong with a ``table`` that is not where the catalog's ``path`` is; None if it is.

    >>> elsewhere("s3://lake/raw", "orders/*.csv"), elsewhere("s3://lake/raw", "s3a://lake/orders")
    (None, None)
    >>> elsewhere("s3://lake/raw", "s3://sea/orders"), elsewhere("data", "s3://sea/orders")
    ("the table is not in the catalog's store, s3a://lake", 'the table is in a store, and the catalog is not')
    """
    if "${" in path:
        return None
    if not is_remote(path):
        return "the table is in a store, and the catalog is not" if is_remote(table) else None
    try:
        home = StoreUri.of(path).root
    except ValueError:
        return None  # reported as an error of the catalog
    try:
        same = scheme(table) is None or StoreUri.of(table).root == home
    except ValueError:
        same = False
    return None if same else f"the table is not in the catalog's store, {redacted(home)}"
