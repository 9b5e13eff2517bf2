"""Column lineage for Dagster: to the direct upstream, as its own record and as a table that a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

from rivet_dagster.compiler.joints import ColumnLineage, ColumnReference


def column_lineage(lineage: Sequence[ColumnLineage], keys: Mapping[str, dg.AssetKey]) -> dg.TableColumnLineage:
    """Dagster's record of which upstream columns each column is made from; ``keys`` are the upstream's by joint."""
    return dg.TableColumnLineage(
        {entry.column: [dg.TableColumnDep(keys[one.joint], one.column) for one in entry.upstream] for entry in lineage}
    )


def lineage_table(lineage: Sequence[ColumnLineage]) -> str:
    """The same in Markdown, with the sources' columns behind it where they are others.

    >>> paid, raw = ColumnReference("paid", "net"), ColumnReference("raw", "amount")
    >>> print(lineage_table([ColumnLineage("total", (paid,), (raw,)), ColumnLineage("one", (), ())]))
    | column | made from | in the sources |
    |---|---|---|
    | `total` | `paid.net` | `raw.amount` |
    | `one` |  |  |
    """
    rows = [
        f"| {_code(one.column)} | {_cells(one.upstream)} | {'?' if one.sources is None else _cells(one.sources)} |"
        for one in lineage
    ]
    return "\n".join(["| column | made from | in the sources |", "|---|---|---|", *rows])


def _cells(references: Sequence[ColumnReference]) -> str:
    return ", ".join(_code(f"{one.joint}.{one.column}") for one in references)


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}".replace("|", "\\|").replace("\n", " ")
