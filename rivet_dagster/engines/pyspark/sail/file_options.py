"""Options of files' readers and writers by which Sail does what Spark does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READER_OPTIONS = frozenset(
    {
        "schema",
        "header",
        "enforceschema",
        "sep",
        "delimiter",
        "quote",
        "comment",
        "nullvalue",
        "mode",
        "encoding",
        "charset",
        "inferschema",
    }
)
"""Options of CSV files, in lower case, that are passed on or done here."""

_ONE_VALUE = {
    "mode": ("permissive",),
    "encoding": ("utf-8", "utf8"),
    "charset": ("utf-8", "utf8"),
    "inferschema": ("false",),
}
"""Options of which only Spark's default is taken."""

WRITER_OPTIONS = frozenset({"compression", "format"})

_CODECS = frozenset({"none", "uncompressed", "snappy", "gzip", "lz4_raw", "zstd", "brotli"})


def refused_reader_option(format: str, key: str, value: Any) -> str | None:
    """Return why an option of a source's files is not taken; None if it is.

    >>> refused_reader_option("csv", "nullValue", "NA"), refused_reader_option("csv", "dateFormat", "dd.MM.yyyy")
    (None, 'it has no such option')
    """
    name = key.lower()
    if name == "format" or (format == "parquet" and name == "schema"):
        return None
    if format != "csv" or name not in READER_OPTIONS:
        return "it has no such option"
    if name in _ONE_VALUE and str(value).lower() not in _ONE_VALUE[name]:
        return f"it has {_ONE_VALUE[name][0]!r} alone"
    if name in ("sep", "delimiter", "quote", "comment") and len(str(value)) != 1:
        return "it takes one character"
    return None


def refused_writer_option(key: str, value: Any = None) -> str | None:
    """Return why an option of a sink is not taken; None if it is.

    >>> refused_writer_option("compression", "zstd"), refused_writer_option("maxRecordsPerFile")
    (None, 'it has no such option')
    """
    if key.lower() not in WRITER_OPTIONS:
        return "it has no such option"
    if key.lower() == "compression" and str(value).lower() not in _CODECS:
        return f"it has no codec {value!r}"
    return None


def text_option(options: Mapping[str, str], *names: str, default: str) -> str:
    """Return the value of an option in any letter case, under the first of the ``names`` that is given.

    >>> text_option({"Delimiter": ";"}, "sep", "delimiter", default=",")
    ';'
    """
    given = {key.lower(): value for key, value in options.items()}
    return next((given[name] for name in names if name in given), default)
