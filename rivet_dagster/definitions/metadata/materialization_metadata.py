"""Metadata of materializations, all of which is known without a further query or read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.definitions.metadata.table_metadata import column_schema, enforced, table_name
from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.model.convert import shortened
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.storage import ColumnStatistics, Published
from rivet_dagster.model.target import Target
from rivet_dagster.secrets.redaction import redacted

ROW_COUNT, PARTITION_ROW_COUNT = "dagster/row_count", "dagster/partition_row_count"
"""Dagster's own keys for the row count of a table, and of one partition of it."""

PLAN_LIMIT = 10_000
"""The maximum length of a query plan, which the event log stores with every materialization."""

_FILES = 20
"""How many files of a landing zone are listed by name."""

_COLUMNS, _CHARACTERS = 200, 100
"""The maximum number of columns with statistics, and of characters of a value in them."""


def exit_metadata(joint: CompiledJoint, target: Target, result: GroupResult) -> dict[str, Any]:
    """Return the metadata of a group's exit; if an empty batch was skipped, without those about rows."""
    phases = {name: round(seconds, 3) for name, seconds in result.phases.items()}
    metadata: dict[str, Any] = {
        "rivet/phases": dg.MetadataValue.json(phases),
        "dagster/table_name": table_name(joint),
        **_plan(result.plans.get(joint.name)),
    }
    if result.published is None or result.rows is None:
        return metadata | {"rivet/skipped": "the batch was empty"}
    columns = tuple(Field(name, kind) for name, kind in result.published.statistics.columns)
    return metadata | {
        ROW_COUNT: result.rows.total,
        "rivet/rows_inserted": result.rows.inserted,
        "rivet/rows_updated": result.rows.updated,
        "rivet/rows_deleted": result.rows.deleted,
        "rivet/bytes": result.published.statistics.bytes,
        **_bytes_written(result.published),
        "rivet/version": result.published.version,
        "dagster/uri": redacted(result.published.uri),
        "dagster/column_schema": column_schema(columns, enforced(joint, target)),
        **_column_statistics(columns, result.values, joint.row_values),
        **_landed(result.published),
        **_inputs(result.published),
    }


def inner_metadata(joint: CompiledJoint, result: GroupResult, window: Window | None) -> dict[str, Any]:
    """Return the metadata of an inner joint: none, unless it was computed and counted as the exit of a partial run.

    Several partitions are counted together.
    """
    if joint.name not in result.counted:
        return {}
    several = window is not None and len(window.keys) > 1
    key = ROW_COUNT if window is None else "rivet/rows_computed" if several else PARTITION_ROW_COUNT
    return {key: result.counted[joint.name], **_plan(result.plans.get(joint.name))}


def _plan(plan: QueryPlan | None) -> dict[str, Any]:
    if plan is None:
        return {}
    text = redacted(plan.text)
    beginning, omitted = text[:PLAN_LIMIT], len(text) - PLAN_LIMIT
    shown = {
        "rivet/spark_plan": code_block(f"{beginning}\n... {omitted} more characters" if omitted > 0 else beginning)
    }
    return shown | ({"rivet/spark_ui": dg.MetadataValue.url(plan.ui)} if plan.ui is not None else {})


def _bytes_written(published: Published) -> Mapping[str, int]:
    return {} if published.record.bytes is None else {"rivet/bytes_written": published.record.bytes}


def _column_statistics(columns: Schema, values: Mapping[str, ColumnStatistics], shows_values: bool) -> dict[str, Any]:
    """Return a table of the columns for which storage has statistics."""

    def record(name: str, statistics: ColumnStatistics) -> dict[str, Any]:
        bounds = {"least": _text(statistics.min), "greatest": _text(statistics.max)} if shows_values else {}
        return {"column": name, "nulls": statistics.nulls, **bounds}

    known = [(column.name, values.get(column.name.lower())) for column in columns]
    records = [
        dg.TableRecord(record(name, column))
        for name, column in known
        if column is not None and column.nulls is not None
    ]
    if not records:
        return {}
    schema = [dg.TableColumn(name, "int" if name == "nulls" else "string") for name in records[0].data]
    return {
        "rivet/column_statistics": dg.MetadataValue.table(records=records[:_COLUMNS], schema=dg.TableSchema(schema))
    }


def _text(value: Any) -> str | None:
    """Return a value as a short text; None if it is not known.

    >>> _text(datetime(2024, 1, 31, 12)), _text(b"ab"), _text(None), len(_text("x" * 1000))
    ('2024-01-31 12:00:00', '6162', None, 100)
    """
    if value is None:
        return None
    if isinstance(value, datetime | date):
        text = value.isoformat(*" " if isinstance(value, datetime) else "")
    else:
        text = value.hex() if isinstance(value, bytes) else str(value)
    return shortened(redacted(text), _CHARACTERS)


def _inputs(published: Published) -> dict[str, Any]:
    """Return the position of each joint and source that a version was made from."""
    read = {name: redacted(str(position)) for name, position in sorted(published.inputs.items())}
    return {"rivet/inputs": dg.MetadataValue.json(read)} if read else {}


def _landed(published: Published) -> dict[str, Any]:
    """Return for each landing zone the number of new files that a version consumed, and the names of the first."""
    landed = {
        source: {"files": len(reading.files), "names": [file.path for file in reading.files[:_FILES]]}
        for source, reading in published.landed.items()
    }
    return {"rivet/landed": dg.MetadataValue.json(landed)} if landed else {}


def code_block(text: str, language: str = "") -> dg.MarkdownMetadataValue:
    """Return a code block in Markdown, whose fence is longer than any in ``text``.

    >>> print(code_block("SELECT '```' AS fence", "sql").md_str)
    ````sql
    SELECT '```' AS fence
    ````
    """
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return dg.MetadataValue.md(f"{fence}{language}\n{text}\n{fence}")


def sql_markdown(sql: str) -> dg.MarkdownMetadataValue:
    """Return SQL as a code block."""
    return code_block(sql, "sql")
