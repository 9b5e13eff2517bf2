"""schema: the table has exactly these columns, with these types."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

from rivet_dagster.checks.contract import CheckKind, Problem, Reading
from rivet_dagster.model import convert
from rivet_dagster.model.check_plan import ByColumns
from rivet_dagster.sql import trees
from rivet_dagster.sql.columns.type_names import parse_ddl

_TYPES = "Write types as Spark's SQL does: BIGINT, STRING, DECIMAL(10, 2), ARRAY<DATE>, ..."


def _types(value: Any) -> tuple[tuple[str, str], ...]:
    columns = convert.mapping(value)
    if not columns:
        raise ValueError("must name at least one column")
    repeated = [name for name, times in Counter(name.lower() for name in columns).items() if times > 1]
    if repeated:
        raise ValueError(f"names {', '.join(repeated)} more than once")
    return tuple((name, convert.text(kind)) for name, kind in columns.items())


@dataclass(frozen=True)
class SchemaCheck(CheckKind):
    """A violation is a column that is missing, has another type, or is not in the check; order does not matter."""

    columns: tuple[tuple[str, str], ...]

    options: ClassVar = {"columns": _types}
    samples_are_rows: ClassVar = False

    def reading(self, joint: str) -> Reading:
        unknown = [f"{name}: {type_}" for name, type_ in self.columns if spark_type(type_) is None]
        if not unknown:
            return Reading()
        return Reading(problems=(Problem(f"no type of Spark's: {', '.join(unknown)}", remediation=_TYPES),))

    def counting(self, joint: str, number: int) -> ByColumns:
        return ByColumns(expected=tuple((name, spark_type(type_) or type_.lower()) for name, type_ in self.columns))

    def shown(self, joint: str) -> str:
        return trees.text(trees.select(of=trees.relation(joint)))


def spark_type(text: str) -> str | None:
    """Return Spark's name of the type that a user wrote; None where it is no type.

    >>> spark_type("ARRAY<LONG>"), spark_type("strin")
    ('array<bigint>', None)
    """
    columns = parse_ddl(f"c {text}")
    return columns[0].type if columns is not None and len(columns) == 1 else None
