"""Column lineage in metadata: Dagster's record of the direct upstream, and a table that also shows the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

from rivet_dagster.compiler.joints import ColumnLineage, ColumnReference


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
