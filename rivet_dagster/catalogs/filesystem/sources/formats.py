"""File formats: how they follow from a file's name, and their default reader options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.convert import show

FORMATS = ("parquet", "csv", "json", "orc")

_EXTENSIONS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
}
_COMPRESSIONS = (".gz", ".bz2", ".zst")


def extension(path: str) -> str:
    """Return the extension of ``path`` in lower case, without that of a compression.

    >>> extension("landing/Orders.CSV.gz")
    '.csv'
    """
    name = PurePath(path.lower())
    return PurePath(name.stem).suffix if name.suffix in _COMPRESSIONS else name.suffix


def format_of(path: str) -> str | None:
    """Return the format that the extension of ``path`` stands for; None if it is not known.

    >>> format_of("orders.ndjson"), format_of("orders")
    ('json', None)
    """
    return _EXTENSIONS.get(extension(path))


def chosen_format(options: Mapping[str, Any]) -> str | None:
    """Return the ``format`` in the user's ``options``, None without one. Raises RVT-204."""
    chosen = options.get("format")
    if chosen is not None and chosen not in FORMATS:
        raise RivetError("RVT-204", f"no format is called {show(chosen)}{nearest(str(chosen), FORMATS)}")
    return chosen


def reader_options(format: str, path: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the engine's options for reading ``path``: our defaults, overridden by the user's. Raises RVT-204.

    >>> reader_options("csv", "orders.tsv", {"header": False})
    {'enforceSchema': 'false', 'sep': '\\t', 'header': 'false'}
    """
    defaults = {}
    if format == "csv":
        # Otherwise Spark ignores all headers but the first file's, and assigns the schema's names by position.
        defaults = {"header": "true", "enforceSchema": "false"}
        if extension(path) == ".tsv":
            defaults["sep"] = "\t"
    given = as_texts(options)
    spelled = {key.lower() for key in given}
    if "delimiter" in spelled:
        spelled.add("sep")
    return {key: value for key, value in defaults.items() if key.lower() not in spelled} | given


def as_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return reader or writer options, all but ``format``, as texts that Spark understands. Raises RVT-204.

    >>> as_texts({"format": "csv", "multiLine": True, "samplingRatio": 0.5})
    {'multiLine': 'true', 'samplingRatio': '0.5'}
    """
    texts = {}
    for key, value in options.items():
        if key == "format":
            continue
        if not isinstance(value, str | bool | int | float):
            raise RivetError("RVT-204", f"the option `{key}` must be a text, a number or a boolean, not {show(value)}")
        texts[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts
