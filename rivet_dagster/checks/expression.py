"""expression: an SQL condition is true for each row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from rivet_dagster.checks.aggregates import Bound, RowCheck, names_an_aggregate
from rivet_dagster.checks.contract import Problem, Reading
from rivet_dagster.model import convert
from rivet_dagster.model.proof import Proof
from rivet_dagster.model.schema import Schema
from rivet_dagster.sql.balance import in_parentheses
from rivet_dagster.sql.conditions import provable
from rivet_dagster.sql.dialect import SqlError, parse_expression, quoted, read_query
from rivet_dagster.sql.error import Unreadable
from rivet_dagster.sql.trees import as_written
from rivet_dagster.sql.unknown_columns import UnknownColumn, unknown_columns


@dataclass(frozen=True)
class Expression(RowCheck):
    """A violation is a row for which the condition is false; NULL is no violation."""

    sql: str

    options: ClassVar = {"sql": convert.text}
    positional: ClassVar = "sql"

    def reading(self, joint: str) -> Reading:
        try:
            parse_expression(self.sql)
        except SqlError as error:
            problem = Problem(f"`{self.sql}` {error}", certain=not isinstance(error, Unreadable))
            return Reading(problems=(problem,))
        return Reading()

    def unknown_columns(self, joint: str, tables: Mapping[str, Schema | None]) -> Iterator[UnknownColumn]:
        text = f"SELECT * FROM {quoted(joint)} WHERE {in_parentheses(self.sql)}"
        with suppress(SqlError):  # reported elsewhere, or left to the engine
            tree = read_query(text).tree
            for column in unknown_columns(text, tree, tables) if tree is not None else ():
                if not names_an_aggregate(column.name):
                    line = None if column.line is None else column.line - 1
                    yield UnknownColumn(column.name, line, column.hint)

    def broken(self, prefix: str) -> Bound:
        return as_written(f"NOT {in_parentheses(self.sql)}"), {}

    def proof(self) -> Proof | None:
        if re.search(r"""[\\"]""", self.sql):  # string literals whose meaning depends on Spark's settings
            return None
        with suppress(SqlError):
            return provable(parse_expression(self.sql))
        return None
