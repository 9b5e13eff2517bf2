"""accepted_values: a column contains only values of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp

from rivet_dagster.checks.contract import Bound, RowCheck
from rivet_dagster.model import convert
from rivet_dagster.model.proof import Constant, OneOf
from rivet_dagster.sql.trees import column, parameter


def _values(value: Any) -> tuple[Any, ...]:
    scalars = str, int, float, bool
    if not isinstance(value, list | tuple) or not value or not all(isinstance(v, scalars) for v in value):
        raise ValueError(f"must be a list of texts, numbers or booleans, not {convert.show(value)}")
    if len({bool if isinstance(v, bool) else str if isinstance(v, str) else float for v in value}) > 1:
        raise ValueError("must hold values of one type")
    return tuple(value)


@dataclass(frozen=True)
class AcceptedValues(RowCheck):
    """A violation is a row with another value; a NULL is no violation."""

    column: str
    values: tuple[str | int | float | bool, ...]

    options: ClassVar = {"column": convert.text, "values": _values}
    positional: ClassVar = "column"

    @property
    def columns_named(self) -> tuple[str, ...]:
        return (self.column,)

    def broken(self, prefix: str) -> Bound:
        values = {f"{prefix}value_{number}": value for number, value in enumerate(self.values)}
        return exp.Not(this=exp.In(this=column(self.column), expressions=[*map(parameter, values)])), values

    def proof(self) -> OneOf:
        return OneOf(column=self.column, constants=tuple(map(Constant.of, self.values)))
