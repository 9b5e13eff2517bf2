"""Problems of the ``path`` and the ``options`` of a catalog in a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from rivet_dagster.catalogs.filesystem.catalog_location import is_remote
from rivet_dagster.catalogs.filesystem.stores.store_uri import OPTIONS, StoreUri
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import nearest
from rivet_dagster.model.convert import show


def wrong_store(path: str, options: Any) -> dict[str, str]:
    """Return what is wrong with a catalog's ``path`` and ``options``, by key; values with ``${`` are not judged.

    >>> wrong_store("s3a://lake/raw", {"endpont": "http://minio:9000"})
    {'options': "has the unknown key 'endpont'; did you mean 'endpoint'?"}
    >>> wrong_store("data", {"region": "eu-central-1"})
    {'options': 'is for a `path` in a store like s3a://bucket/folder'}
    """
    if not isinstance(options, Mapping):
        return {"options": f"must be a mapping of {', '.join(OPTIONS['s3a'])}"}
    try:
        uri = StoreUri.of(path) if is_remote(path) else None
    except ValueError as error:
        return {"path": str(error)}
    if uri is None and not is_unexpanded(path):
        return {"options": "is for a `path` in a store like s3a://bucket/folder"} if options else {}
    known = OPTIONS[uri.scheme] if uri is not None else {key for keys in OPTIONS.values() for key in keys}
    wrong = "; ".join(_wrong(options, sorted(known)))
    return {"options": wrong} if wrong else {}


def _wrong(options: Mapping[Any, Any], known: list[str]) -> Iterator[str]:
    for key, value in options.items():
        if key not in known:
            yield f"has the unknown key {show(key)}{nearest(str(key), known) or '; such a store has none'}"
        elif not isinstance(value, str) or not value:
            yield f"needs a text for `{key}`, not {show(value) if key in ('endpoint', 'region') else 'this'}"
        elif key == "endpoint" and not is_unexpanded(value) and not _is_url(value):
            yield "needs a URL like https://minio.example:9000 for `endpoint`"
    if "secret_key" in known and ("access_key" in options) != ("secret_key" in options):
        yield "needs both `access_key` and `secret_key`, or neither"


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return bool(
            url.scheme in ("http", "https")
            and url.hostname
            and url.port != 0
            and "@" not in url.netloc
            and url.path in ("", "/")
            and not (url.query or url.fragment)
        )
    except ValueError:
        return False
