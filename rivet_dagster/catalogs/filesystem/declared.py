"""Problems of tables as joints declare them, found at compile time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.sources.table_files import as_texts, chosen_format, without_braces
from rivet_dagster.catalogs.filesystem.stores.store import elsewhere
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.step_options import STEP_OPTIONS
from rivet_dagster.paths import is_remote, local_path
from rivet_dagster.secrets.redaction import redacted

WRITER_OPTIONS = ("compression", "maxRecordsPerFile")
"""Writer options of Spark itself, in any letter case."""

PARQUET_OPTIONS = tuple(
    f"parquet.{name}"
    for name in """
    block.row.count.limit block.size bloom.filter.adaptive.enabled bloom.filter.candidates.number
    bloom.filter.enabled bloom.filter.expected.ndv bloom.filter.fpp bloom.filter.max.bytes column.statistics.enabled
    columnindex.truncate.length compression compression.codec.zstd.bufferPool.enabled compression.codec.zstd.level
    compression.codec.zstd.workers crypto.factory.class dictionary.page.size enable.dictionary encryption.algorithm
    encryption.cache.lifetime.seconds encryption.column.keys encryption.complete.columns
    encryption.data.key.length.bits encryption.double.wrapping encryption.footer.key encryption.kek.length.bits
    encryption.key.access.token encryption.key.material.store.internally encryption.kms.client.class
    encryption.kms.instance.id encryption.kms.instance.url encryption.plaintext.footer encryption.uniform.key
    memory.min.chunk.size memory.pool.ratio page.row.count.limit page.size page.size.check.estimate
    page.size.row.check.max page.size.row.check.min page.value.count.threshold page.write-checksum.enabled
    size.statistics.enabled statistics.truncate.length validation writer.max-padding writer.version
    """.split()
)
"""Options of the Parquet library, in its spelling; some may end in ``#column``. None of them adds files."""

_CODECS = ("none", "uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw", "zstd")
_LONGEST = 255
_CATALOG_PATH = "Give the catalog another `path`."

PUBLISH_WITH_ICEBERG = "Publish there with a catalog of type iceberg, whose `warehouse` may be in that store."
"""The remedy for a sink in a store."""

OWN_CATALOG = "Declare a catalog whose `path` is there."
"""The remedy for a table that is not where the catalog is."""


def wrong_sink(catalog: Mapping[str, Any], table: str, options: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the problems of a table that is to be published.

    >>> [problem.message for problem in wrong_sink({"path": "lake"}, "orders", {"compression": "zst"})]
    ["`compression` must be one of none, uncompressed, snappy, gzip, lzo, brotli, lz4, lz4_raw, zstd, not 'zst'"]
    """
    path = str(catalog.get("path"))
    if is_remote(path):
        message = "the catalog is in a store that has no atomic switch from one version of a table to the next"
        yield Wrong("RVT-402", "catalog", message, PUBLISH_WITH_ICEBERG)
    elif local_path(path).name == ".rivet":
        message = "the catalog is a folder called .rivet, where catalogs keep the versions of their tables"
        yield Wrong("RVT-204", "catalog", message, _CATALOG_PATH)
    try:
        TableLayout(Path(), table)
    except RivetError as error:
        diagnostic = error.diagnostics[0]
        yield Wrong("RVT-204", "table", diagnostic.message, diagnostic.remediation)
    else:
        if len(table.encode()) > _LONGEST:
            yield Wrong("RVT-204", "table", f"no table has a name of more than {_LONGEST} bytes, like {show(table)}")
    yield from wrong_writer_options(options)


def wrong_source(catalog: Mapping[str, Any], table: str, options: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the problems of a table that is to be read."""
    wrong = elsewhere(str(catalog.get("path")), table)
    if wrong is not None:
        yield Wrong("RVT-204", "table", f"{wrong}: {redacted(table)}", OWN_CATALOG)
    if "\0" in table:
        yield Wrong("RVT-204", "table", f"no file is called {show(table)}")
    yield from _refused("table", lambda: without_braces(table))
    yield from _refused("options.format", lambda: chosen_format(options))
    yield from _refused("options", lambda: as_texts(options))


def wrong_writer_options(options: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the options of a table to be published that are none of Spark's Parquet writer."""
    spark = {name.lower() for name in (*WRITER_OPTIONS, "format")}
    for key in options:
        if key.lower() not in spark and key.partition("#")[0] not in PARQUET_OPTIONS:
            known = (*WRITER_OPTIONS, *PARQUET_OPTIONS, *STEP_OPTIONS)
            hint = nearest(key, known, listed=False) or f"; known: {', '.join(WRITER_OPTIONS)}, parquet.*"
            yield Wrong("RVT-203", f"options.{key}", f"unknown option '{key}'{hint}")
    if options.get("format", "parquet") != "parquet":
        message = "a table that is published here is always Parquet: `format` cannot be another"
        yield Wrong("RVT-204", "options.format", message, "Remove the option.")
    yield from _refused("options", lambda: as_texts(options))
    codec = next((value for key, value in options.items() if key.lower() == "compression"), "none")
    if isinstance(codec, str) and codec.lower() not in _CODECS:
        message = f"`compression` must be one of {', '.join(_CODECS)}, not {show(codec)}"
        yield Wrong("RVT-204", "options", message)


def _refused(key: str, judge: Callable[[], object]) -> Iterator[Wrong]:
    try:
        judge()
    except RivetError as error:
        diagnostic = error.diagnostics[0]
        yield Wrong(diagnostic.code, key, diagnostic.message, diagnostic.remediation)
