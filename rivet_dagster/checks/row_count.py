"""row_count: the number of rows is within bounds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from rivet_dagster.checks.contract import AggregateCheck, Bound
from rivet_dagster.model import convert
from rivet_dagster.model.proof import RowsBetween
from rivet_dagster.sql import trees

_MOST_ROWS = 2**63 - 1
"""The limit of an engine's row counts."""


@dataclass(frozen=True)
class RowCount(AggregateCheck):
    """Violations are the missing or surplus rows; ``min`` and ``max`` are inclusive."""

    min: int | None = None
    max: int | None = None

    options: ClassVar = {"min": convert.whole(0), "max": convert.whole(0)}
    optional: ClassVar = frozenset(options)

    def __post_init__(self) -> None:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise convert.WrongKeyError(f"({self.min}) is greater than `max` ({self.max})", "min")

    @classmethod
    def missing(cls, given: Collection[str]) -> list[str]:
        return [] if {"min", "max"} & set(given) else ["`min` or `max`"]

    def aggregate(self, prefix: str) -> Bound:
        rows, misses = trees.number_of_rows, [trees.number(0)]
        if self.min is not None:
            misses.append(exp.Sub(this=trees.number(min(self.min, _MOST_ROWS)), expression=rows()))
        if self.max is not None:
            misses.append(exp.Sub(this=rows(), expression=trees.number(min(self.max, _MOST_ROWS))))
        return exp.Greatest(this=misses[0], expressions=misses[1:]), {}

    def shown(self, joint: str) -> str:
        return trees.text(trees.select(trees.named(trees.number_of_rows(), "row_count"), of=trees.relation(joint)))

    def proof(self) -> RowsBetween:
        return RowsBetween(least=self.min, most=self.max)
