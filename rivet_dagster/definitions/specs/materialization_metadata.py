"""Metadata of a joint and of its materializations, all of which is known without a further query or read.

It is the table's name and columns with the constraints that blocking checks enforce, the lineage of columns, and what
a run has made of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import dagster as dg

from rivet_dagster.compiler.joints import ColumnLineage, ColumnReference, CompiledJoint
from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.model.check import AUDIT
from rivet_dagster.model.check_plan import Constraint
from rivet_dagster.model.convert import shorten_text
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.storage import ColumnStatistics, Published
from rivet_dagster.model.target import Target
from rivet_dagster.secrets.redaction import redacted


def table_name(joint: CompiledJoint) -> str:
    """Return the name of the table of a source or a stored joint: its catalog and its table."""
    return f"{joint.catalog}.{joint.table}"


def column_schema(columns: Schema, constraints: Iterable[Constraint] = ()) -> dg.TableSchema:
    """Return the schema of a table with ``columns`` and ``constraints``; an unknown type is shown as ``?``."""
    constraints = tuple(constraints)
    filled = _lower(name for rule in constraints if rule.kind == "not_null" for name in rule.columns)
    keys = (rule.columns for rule in constraints if rule.kind == "unique")
    unique = _lower(columns[0] for columns in keys if len(columns) == 1)
    return dg.TableSchema(
        [
            dg.TableColumn(
                field.name,
                field.type or "?",
                constraints=dg.TableColumnConstraints(
                    nullable=field.name.lower() not in filled, unique=field.name.lower() in unique
                ),
            )
            for field in columns
        ]
    )


def enforced(joint: CompiledJoint, target: Target | None) -> tuple[Constraint, ...]:
    """Return the constraints that blocking checks of ``joint`` enforce for all rows of its table.

    An assertion enforces none for the rows to which a batch is added.
    """
    judges_batches = target is not None and not target.is_its_batch
    checks = (check for check in joint.checks if check.blocking and (check.phase == AUDIT or not judges_batches))
    return tuple(check.queries.constraint for check in checks if check.queries.constraint is not None)


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def column_lineage(lineage: Sequence[ColumnLineage], keys: Mapping[str, dg.AssetKey]) -> dg.TableColumnLineage:
    """Return Dagster's record of column lineage to the direct upstream; ``keys`` are the asset keys by joint."""
    return dg.TableColumnLineage(
        {entry.column: [dg.TableColumnDep(keys[ref.joint], ref.column) for ref in entry.upstream] for entry in lineage}
    )


def lineage_table(lineage: Sequence[ColumnLineage]) -> str:
    """Return column lineage as a Markdown table, with the columns of the direct upstream and of the sources.

    >>> paid, raw = ColumnReference("paid", "net"), ColumnReference("raw", "amount")
    >>> print(lineage_table([ColumnLineage("total", (paid,), (raw,)), ColumnLineage("one", (), ())]))
    | column | made from | in the sources |
    |---|---|---|
    | `total` | `paid.net` | `raw.amount` |
    | `one` |  |  |
    """
    rows = [
        f"| {_code(row.column)} | {_cells(row.upstream)} | {'?' if row.sources is None else _cells(row.sources)} |"
        for row in lineage
    ]
    return "\n".join(["| column | made from | in the sources |", "|---|---|---|", *rows])


def _cells(references: Sequence[ColumnReference]) -> str:
    return ", ".join(_code(f"{reference.joint}.{reference.column}") for reference in references)


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}".replace("|", "\\|").replace("\n", " ")


ROW_COUNT, PARTITION_ROW_COUNT = "dagster/row_count", "dagster/partition_row_count"
"""Dagster's own keys for the row count of a table, and of one partition of it."""

_OF_LAST = frozenset(
    {
        "dagster/column_schema",
        "dagster/table_name",
        "dagster/uri",
        "rivet/bytes",
        "rivet/bytes_written",
        "rivet/column_statistics",
        "rivet/errors_by_site",
        "rivet/inputs",
        "rivet/landed",
        "rivet/phases",
        "rivet/spark_plan",
        "rivet/spark_ui",
    }
)
"""The entries about the table, its files and the query, some of them long."""

MOST_COUNTED = 100
"""The most partitions of a run that each have a row count of their own: Dagster looks through all for each of them."""

_MOST_LISTED = 1_000
"""The most partitions whose row counts are listed in one entry."""

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


def divide_metadata(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the entries that each partition of a run of several has, and those that the last one alone has.

    The event log stores the entries of each partition; that of the last one is the latest of the asset.

    >>> divide_metadata({"rivet/version": "7", "rivet/phases": {"write": 1.5}})
    ({'rivet/version': '7'}, {'rivet/phases': {'write': 1.5}})
    """
    short = {key: value for key, value in metadata.items() if key not in _OF_LAST}
    return short, {key: value for key, value in metadata.items() if key in _OF_LAST}


def partition_counts(rows: Mapping[str, int]) -> dict[str, Any]:
    """Return the row counts of more than MOST_COUNTED partitions as one entry, of the last 1,000 if there are more."""
    listed = dict(list(rows.items())[-_MOST_LISTED:])
    omitted = {"... earlier partitions": len(rows) - len(listed)} if len(rows) > len(listed) else {}
    return {"rivet/partition_row_counts": dg.MetadataValue.json({**omitted, **listed})}


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
    return shorten_text(redacted(text), _CHARACTERS)


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
