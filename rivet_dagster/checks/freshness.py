"""freshness: the newest row is not too old."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from rivet_dagster.checks.contract import AggregateCheck, Bound
from rivet_dagster.model import convert
from rivet_dagster.model.check_plan import BoundQuery
from rivet_dagster.model.proof import NewestWithin
from rivet_dagster.sql import trees


@dataclass(frozen=True)
class Freshness(AggregateCheck):
    """There is one violation if the newest value is older than ``max_age`` seconds, or if there is no value."""

    column: str
    max_age: float

    options: ClassVar = {"column": convert.text, "max_age": convert.seconds}
    positional: ClassVar = "column"

    @property
    def columns_named(self) -> tuple[str, ...]:
        return (self.column,)

    def aggregate(self, prefix: str) -> Bound:
        parameter = f"{prefix}max_age"
        zero = trees.number(0)
        age = exp.func("MAKE_DT_INTERVAL", zero.copy(), zero.copy(), zero.copy(), trees.parameter(parameter))
        oldest = exp.Sub(this=exp.CurrentTimestamp(), expression=age)
        fresh = exp.If(this=exp.GTE(this=self._newest(), expression=oldest), true=zero)
        return exp.Case(ifs=[fresh], default=trees.number(1)), {parameter: self.max_age}

    def samples(self, joint: str, limit: int) -> BoundQuery:
        return BoundQuery(trees.text(trees.select(trees.named(self._newest(), "newest"), of=trees.relation(joint))))

    def proof(self) -> NewestWithin:
        return NewestWithin(column=self.column, max_age=self.max_age)

    def _newest(self) -> exp.Max:
        return exp.Max(this=trees.column(self.column))
