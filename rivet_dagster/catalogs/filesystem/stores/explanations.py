"""The meaning of a store's answers, and remedies."""

from __future__ import annotations

import re
from collections.abc import Callable

from rivet_dagster.catalogs.filesystem.stores.store_uri import StoreUri
from rivet_dagster.secrets.redaction import redacted

_AWS = re.compile(r"AWS Error (?P<code>[A-Z_]+)(?: \(HTTP status (?P<status>\d+)\))? during (?P<call>\w+) operation")
_CURL = re.compile(r"curlCode: \d+, ([^;]+)")
_REQUEST_ID = re.compile(r" *\(Request ID: [^)]*\)")

_KEYS = "Correct `access_key` and `secret_key` in the catalog's `options`, or what the environment has in their place."
_RIGHTS = "Give these keys the right to list and read there; archiving also needs those to write and delete."
_BUCKET = "Create it, or correct the catalog's `path`."
_REGION = "Name the bucket's `region` in the catalog's `options`."
_ADDRESS = "Correct `endpoint` and `region` in the catalog's `options`, or look after the store."
_LIBRARY = "pyarrow reads HDFS through libhdfs: set JAVA_HOME, HADOOP_HOME and CLASSPATH, or ARROW_LIBHDFS_DIR."

_WRONG_KEYS = frozenset(
    "INVALID_ACCESS_KEY_ID SIGNATURE_DOES_NOT_MATCH INVALID_CLIENT_TOKEN_ID INCOMPLETE_SIGNATURE INVALID_SIGNATURE "
    "MISSING_AUTHENTICATION_TOKEN UNRECOGNIZED_CLIENT REQUEST_EXPIRED INVALID_TOKEN EXPIRED_TOKEN".split()
)
_SILENT = frozenset({"NETWORK_CONNECTION", "REQUEST_TIMEOUT", "CLIENT_SIGNING_FAILURE"})


def explained(error: Exception, uri: StoreUri, probe: Callable[[], None]) -> tuple[str, str | None]:
    """Return the end of a sentence about an exception of pyarrow, and a remedy; None for the usual one.

    S3 refuses a request about one object without a reason; ``probe`` makes one that it gives a reason for.

    >>> lake = StoreUri.of("s3a://lake/raw")
    >>> refusal = OSError("When listing: AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: it does not exist")
    >>> explained(refusal, lake, lambda: None)
    ("there is no bucket 'lake'", "Create it, or correct the catalog's `path`.")
    """
    text = str(error)
    match = _AWS.search(text)
    if match is None:
        return _other(error, text)
    if _is_refusal(match) and match["call"].startswith("Head"):
        try:
            probe()
        except OSError as reason:
            text = str(reason)
            match = _AWS.search(text) or match
    return _of_s3(match, text, uri)


def _of_s3(match: re.Match[str], text: str, uri: StoreUri) -> tuple[str, str]:
    code, status, call = match["code"], match["status"], match["call"]
    if code == "NO_SUCH_BUCKET":
        return f"there is no bucket '{uri.bucket}'", _BUCKET
    if code in _WRONG_KEYS or status == "401":
        return f"the store does not accept the keys ({code.lower()})", _KEYS
    if _is_refusal(match):
        return f"the store does not permit {call} with these keys", _RIGHTS
    if code == "PERMANENT_REDIRECT" or status in ("301", "307"):
        return "the bucket is in another region", _REGION
    if code in _SILENT:
        curl = _CURL.search(text)
        return f"the store does not answer{f': {curl[1]}' if curl else ''}", _ADDRESS
    return _short(text[match.start() :]), _ADDRESS


def _is_refusal(match: re.Match[str]) -> bool:
    return match["code"] == "ACCESS_DENIED" or match["status"] == "403"


def _other(error: Exception, text: str) -> tuple[str, str | None]:
    if isinstance(error, FileNotFoundError):
        return "it does not exist any more", None
    if "libhdfs" in text or "libjvm" in text:
        return _short(text), _LIBRARY
    return _short(text), None


def _short(text: str) -> str:
    return redacted(_REQUEST_ID.sub("", text.partition("\n")[0]).strip())
