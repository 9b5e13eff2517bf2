"""Sample rows as metadata: short texts, without secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from rivet_dagster.model.convert import shortened
from rivet_dagster.secrets.redaction import redacted

CHARACTERS, BYTES = 200, 10_000
"""The maximum length of a value in a sample, and of all samples of a check together."""


def bounded(samples: Sequence[Mapping[str, Any]], most: int = BYTES) -> list[dict[str, str]]:
    """Return sample rows as texts, each value cut to 200 characters, and as many rows as fit into ``most`` bytes.

    If the first row alone is longer, only its first columns are returned.

    >>> bounded([{"id": 1, "note": "x" * 300}])[0]["note"][-5:]
    'xx...'
    >>> [len(row) for row in bounded([{f"c{n}": "x" * 200 for n in range(100)}] * 2)]
    [49]
    """
    rows: list[dict[str, str]] = []
    remaining = most
    for sample in samples:
        row: dict[str, str] = {}
        for name, value in sample.items():
            text = short_text(value)
            remaining -= len(name.encode()) + len(text.encode())
            if remaining >= 0:
                row[name] = text
        if remaining < 0 and rows:
            break
        rows.append(row)
    return rows


def samples_table(rows: Sequence[Mapping[str, str]]) -> dg.MetadataValue:
    """Return bounded rows as a table with the columns of the first one."""
    schema = dg.TableSchema([dg.TableColumn(name, "string") for name in rows[0]])
    return dg.MetadataValue.table(records=[dg.TableRecord(dict(row)) for row in rows], schema=schema)


def short_text(value: Any) -> str:
    """Return a value as a text of at most 200 characters."""
    return "NULL" if value is None else shortened(redacted(str(value)), CHARACTERS)
