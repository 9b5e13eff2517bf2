"""A model of each write strategy in plain Python, on lists of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


class Refused(Exception):
    """Raised if the batch must not be written, with the code of the error."""


@dataclass
class ModelTable:
    """A table under one strategy: ``columns`` in order, and ``rows``."""

    strategy: Mapping[str, Any]
    columns: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    exists: bool = False

    def write(self, columns: Sequence[str], batch: Sequence[Row]) -> tuple[int, int, int, int]:
        """Write a batch; return the rows inserted, updated, deleted and in total. Raises Refused."""
        mode = self.strategy["mode"]
        if mode == "replace":
            self.columns = []
        after = self._columns_after(columns)
        old = [{column: row.get(column) for column in after} for row in self.rows]
        new = [{column: row.get(column) for column in after} for row in batch]
        rows, inserted, updated, deleted = getattr(self, f"_{mode}")(old, new)
        self.columns, self.rows, self.exists = after, rows, True
        return inserted, updated, deleted, len(rows)

    def refresh(self, columns: Sequence[str], batch: Sequence[Row]) -> tuple[int, int, int, int]:
        """Write a batch as if nothing had ever been written. Raises Refused."""
        first, old = ModelTable(self.strategy), len(self.rows)
        *_, total = first.write(columns, batch)
        self.columns, self.rows, self.exists = first.columns, first.rows, True
        return total, 0, old, total

    def _columns_after(self, incoming: Sequence[str]) -> list[str]:
        if not self.exists or self.strategy["mode"] == "replace":
            return list(incoming)
        change = self.strategy.get("on_schema_change", "fail")
        if change == "fail" and set(incoming) != set(self.columns):
            raise Refused("RVT-514")
        return self.columns + [column for column in incoming if change == "add" and column not in self.columns]

    def _replace(self, old: list[Row], new: list[Row]) -> tuple[list[Row], int, int, int]:
        return new, len(new), 0, len(old)

    _truncate_insert = _replace

    def _append(self, old: list[Row], new: list[Row]) -> tuple[list[Row], int, int, int]:
        return old + new, len(new), 0, 0

    def _incremental_append(self, old: list[Row], new: list[Row]) -> tuple[list[Row], int, int, int]:
        watermark = self.strategy["watermark_column"]
        if any(row[watermark] is None for row in new):
            raise Refused("RVT-516")
        there = [row[watermark] for row in old if row[watermark] is not None]
        newer = [row for row in new if not there or row[watermark] > max(there)]
        return old + newer, len(newer), 0, 0

    def _delete_insert(self, old: list[Row], new: list[Row]) -> tuple[list[Row], int, int, int]:
        columns = self.strategy.get("partition_by") or self.strategy["key_columns"]
        return self._replace_where(columns, old, new)

    def _snapshot(self, old: list[Row], new: list[Row]) -> tuple[list[Row], int, int, int]:
        return self._replace_where([self.strategy["partition_column"]], old, new)

    def _replace_where(self, columns: Sequence[str], old: list[Row], new: list[Row]) -> tuple[list[Row], int, int, int]:
        incoming = [[row[column] for column in columns] for row in new]
        stay = [row for row in old if [row[column] for column in columns] not in incoming]
        return stay + new, len(new), 0, len(old) - len(stay)

    def _merge(self, old: list[Row], new: list[Row]) -> tuple[list[Row], int, int, int]:
        keys = self.strategy["key_columns"]
        rows, inserted, updated = list(old), 0, 0
        for row in self._one_each(keys, new):
            known = [place for place, other in enumerate(rows) if all(other[key] == row[key] for key in keys)]
            for place in known:
                updated += rows[place] != row
                rows[place] = row
            if not known:
                rows.append(row)
                inserted += 1
        return rows, inserted, updated, 0

    def _one_each(self, keys: Sequence[str], rows: list[Row]) -> list[Row]:
        watermark = self.strategy.get("watermark_column")
        order = self.strategy.get("order_by", [watermark] if watermark else [])
        chosen: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            rivals = chosen.setdefault(tuple(row[key] for key in keys), [])
            if row not in rivals:
                rivals.append(row)
        winners = []
        for rivals in chosen.values():
            ranks = [[(row[column] is not None, row[column] or 0) for column in order] for row in rivals]
            best = [row for row, rank in zip(rivals, ranks, strict=True) if rank == max(ranks)]
            if len(best) > 1:
                raise Refused("RVT-515")
            winners.append(best[0])
        return winners
