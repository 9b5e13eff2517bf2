"""Row errors, and sample rows, as metadata: short texts without secrets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from rivet_dagster.errors import Diagnostic
from rivet_dagster.execution.results import RowErrorCounts
from rivet_dagster.execution.row_error import SiteDiagnostic, site_diagnostic
from rivet_dagster.model.convert import shorten_text
from rivet_dagster.model.row_errors import ERROR_TYPES
from rivet_dagster.model.schema import Field
from rivet_dagster.secrets.redaction import redacted

ERRORS = "rivet/errors"
BY_SITE = "rivet/errors_by_site"
TABLE = "rivet/errors_table"
DIAGNOSTICS = "rivet/diagnostics"

COLUMNS = tuple(Field(name, kind) for name, kind in ERROR_TYPES.items())
"""The columns of an error table."""

_SITES, _SAMPLED, _SAMPLE_BYTES = 100, 20, 2_000
"""How many sites are shown, how many of them with samples, and the maximum length of a site's samples together."""


def table_metadata(errors: RowErrorCounts, table: dg.AssetKey) -> dict[str, Any]:
    """Return the metadata of the materialization of a table with the error table ``table``."""
    return {ERRORS: errors.total, **_sites(errors), TABLE: dg.MetadataValue.asset(table)}


def check_metadata(errors: RowErrorCounts, table: dg.AssetKey | None) -> dict[str, Any]:
    """Return the metadata of the check of these errors: a link to their table, their sites, and all of it as JSON."""
    records = site_records(site_diagnostics(errors))
    link = {TABLE: dg.MetadataValue.asset(table)} if table is not None else {}
    return link | _sites(errors) | ({DIAGNOSTICS: dg.MetadataValue.json(records)} if records else {})


def error_table_metadata(errors: RowErrorCounts) -> dict[str, Any]:
    """Return the metadata of the materialization of an error table, without its row count."""
    return {"rivet/errors_of_run": errors.count, **_sites(errors)}


def failure_metadata(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """Return the metadata of a failure with these diagnostics, with a table of those that are sites."""
    sites = [diagnostic for diagnostic in diagnostics if isinstance(diagnostic, SiteDiagnostic)]
    by_site = {BY_SITE: sites_table(sites)} if sites else {}
    return {DIAGNOSTICS: dg.MetadataValue.json(site_records(diagnostics)), **by_site}


def site_diagnostics(errors: RowErrorCounts) -> list[SiteDiagnostic]:
    """Return a diagnostic for each site of errors that are data."""
    remediation = f"Correct the data or the expressions; {errors.table} holds these rows."
    return [site_diagnostic(site, remediation) for site in errors.sites]


def site_records(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """Return diagnostics as JSON, their samples as short texts."""
    records: list[dict[str, Any]] = []
    for diagnostic in list(diagnostics)[:_SITES]:
        record = diagnostic.to_dict()
        if isinstance(diagnostic, SiteDiagnostic):
            samples = diagnostic.samples if len(records) < _SAMPLED else ()
            record["expression"] = short_text(diagnostic.expression)
            record["samples"] = bounded(samples, _SAMPLE_BYTES)
        records.append(record)
    return records


def sites_table(sites: Sequence[SiteDiagnostic]) -> dg.MetadataValue:
    """Return a table with a row for each site, and its first sample if there is any."""
    types = {name: "int" if name in ("line", "count") else "string" for name in _COLUMNS}
    records = [
        dg.TableRecord(
            {
                "condition": site.condition,
                "joint": site.joint,
                "file": site.file,
                "line": site.line,
                "expression": short_text(site.expression),
                "count": site.count,
                "sample": short_text(json.dumps(bounded(site.samples[:1])[0])) if site.samples else None,
            }
        )
        for site in sites[:_SITES]
    ]
    schema = dg.TableSchema([dg.TableColumn(name, type_) for name, type_ in types.items()])
    return dg.MetadataValue.table(records=records, schema=schema)


_COLUMNS = ("condition", "joint", "file", "line", "expression", "count", "sample")


def _sites(errors: RowErrorCounts) -> dict[str, Any]:
    return {BY_SITE: sites_table(site_diagnostics(errors))} if errors.sites else {}


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


_LOOKED_AT = 20_000
"""The characters of a value in which secrets are looked for: far more than are shown, so that none is shown in part."""


def short_text(value: Any) -> str:
    """Return a value as a text of at most 200 characters."""
    return "NULL" if value is None else shorten_text(redacted(str(value)[:_LOOKED_AT]), CHARACTERS)
