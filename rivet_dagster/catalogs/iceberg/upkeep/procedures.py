"""Iceberg's procedures as statements, whose values are parameters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rivet_dagster.catalogs.iceberg.names import TableName
from rivet_dagster.catalogs.iceberg.settings.upkeep_options import EXPIRE, MANIFESTS, ORPHANS, REWRITE
from rivet_dagster.engines.contract import EngineSession


def expire_snapshots(session: EngineSession, table: TableName, before: datetime, retain_last: int) -> dict[str, int]:
    """Remove the snapshots before a time but the last ones of each branch, and return the numbers of deleted files."""
    rows = _called(session, EXPIRE, table, older_than=before, retain_last=retain_last)
    return {key: int(value or 0) for row in rows for key, value in row.items()}


def rewrite_data_files(session: EngineSession, table: TableName, options: Mapping[str, str]) -> dict[str, int]:
    """Rewrite the data files of the current rows, and return Iceberg's numbers."""
    return _counts(_called(session, REWRITE, table, options=options))


def rewrite_manifests(session: EngineSession, table: TableName) -> dict[str, int]:
    """Rewrite the manifests of the current rows, and return Iceberg's numbers."""
    return _counts(_called(session, MANIFESTS, table))


def remove_orphan_files(session: EngineSession, table: TableName, location: str, before: datetime) -> int:
    """Remove the files below the table's location that it does not know and that are older, and return their number."""
    # Hadoop, by which Iceberg lists files otherwise, knows no s3://.
    more = {"prefix_listing": True} if location.startswith("s3://") else {}
    return len(_called(session, ORPHANS, table, older_than=before, **more))


def call(procedure: str, table: TableName, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the statement that calls a procedure of the table's catalog, and its parameters.

    >>> call("expire_snapshots", TableName("lake", ("shop",), "orders"), {"retain_last": 2})
    ('CALL `lake`.system.expire_snapshots(table => :table, retain_last => :retain_last)',
     {'table': '`shop`.`orders`', 'retain_last': 2})
    >>> call("rewrite_data_files", TableName("lake", ("shop",), "orders"), {"options": {"rewrite-all": "true"}})[0]
    'CALL `lake`.system.rewrite_data_files(table => :table, options => map(:key0, :value0))'
    """
    parameters: dict[str, Any] = {"table": ".".join(f"`{part}`" for part in table.identifier)}
    texts = ["table => :table"]
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            pairs = list(value.items())
            parameters |= {f"key{number}": key for number, (key, _) in enumerate(pairs)}
            parameters |= {f"value{number}": text for number, (_, text) in enumerate(pairs)}
            entries = ", ".join(f":key{number}, :value{number}" for number in range(len(pairs)))
            texts += [f"{name} => map({entries})"] if pairs else []
        else:
            parameters[name] = value
            texts.append(f"{name} => :{name}")
    return f"CALL `{table.catalog}`.system.{procedure}({', '.join(texts)})", parameters


def _called(session: EngineSession, procedure: str, table: TableName, **arguments: Any) -> list[dict[str, Any]]:
    return session.rows(*call(procedure, table, arguments))


def _counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {key: int(value) for key, value in (rows[0] if rows else {}).items()}
