"""Settings of engines with ``remote: sail``: those of Sail's server, and those of Spark that its sessions honour."""

from __future__ import annotations

from collections.abc import Mapping

PORT = "sail.port"
"""The setting that gives the server a fixed port; all others with this beginning are Sail's own."""

_OWN = "sail."

KEPT_EVERY = 10.0
"""The seconds after which a client that lives, whatever it computes, tells its sessions so."""

HONOURED = frozenset({"spark.sql.session.timeZone"})
"""Settings of Spark by which sessions of Sail compute what those of Spark do."""

_FIXED = {
    # ANSI mode is Spark's default and Sail's; without it Sail does not do what Spark does without it.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
}
"""Settings that may be given, with the one value that they have anyway."""

_DEFAULTS = {
    # Whoever reads a table finds the types that Spark would have written, and no time zone of the session.
    "sail.parquet.skip_arrow_metadata": "true",
    # Watermarks and checks believe the bounds of texts, which must be whole: 0 is without a limit.
    "sail.parquet.statistics_truncate_length": "0",
    "sail.parquet.column_index_truncate_length": "2147483647",
    # Bounds in Parquet files leave out NaN, which is greater than all numbers: by them Sail would skip rows for which a
    # condition holds.
    "sail.execution.collect_statistics": "false",
    "sail.parquet.pruning": "false",
    "sail.parquet.enable_page_index": "false",
    # A file that was replaced by another one of the same size within a second must be read again.
    "sail.parquet.file_metadata_cache.type": "none",
    "sail.parquet.file_statistics_cache.type": "none",
    # The query of a client that has died is cancelled with its session, which living clients keep (`KEPT_EVERY`).
    "sail.spark.session_timeout_secs": "45",
    "sail.telemetry.export_logs": "false",
    "sail.telemetry.export_metrics": "false",
    "sail.telemetry.export_traces": "false",
}


def wrong_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong with settings of an engine's ``config``: a sentence by key.

    >>> wrong_settings({"spark.sql.session.timeZone": "UTC", "sail.execution.batch_size": "1024"})
    {}
    >>> wrong_settings({"spark.sql.shuffle.partitions": "4"})
    {'spark.sql.shuffle.partitions': 'has no effect on Sail: it takes `spark.sql.session.timeZone`, and ... `sail.`'}
    """
    return {
        key: f"has no effect on Sail: it takes {_taken()}, and settings of its own that begin with `{_OWN}`"
        for key, value in settings.items()
        if not key.startswith(_OWN) and key not in HONOURED and _FIXED.get(key) != value
    }


def wrong_in_session(settings: Mapping[str, str]) -> dict[str, str]:
    """Return which settings the sessions of one group do not take: a sentence by key.

    >>> wrong_in_session({"sail.execution.batch_size": "1024"})
    {'sail.execution.batch_size': 'is a setting of the whole server: it belongs to the `config` of the engine'}
    """
    whole = "is a setting of the whole server: it belongs to the `config` of the engine"
    return {
        key: whole if key.startswith(_OWN) else f"has no effect on Sail: its sessions take {_taken()}"
        for key, value in settings.items()
        if key not in HONOURED and _FIXED.get(key) != value
    }


def server_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a server gets its settings, those that this package needs among them.

    >>> server_variables({"sail.execution.batch_size": "1024"})["SAIL_EXECUTION__BATCH_SIZE"]
    '1024'
    """
    return {
        "SAIL_" + key.removeprefix(_OWN).replace(".", "__").upper(): value
        for key, value in {**_DEFAULTS, **settings}.items()
        if key != PORT
    }


def _taken() -> str:
    return ", ".join(f"`{key}`" for key in sorted(HONOURED))
