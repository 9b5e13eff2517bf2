"""expression: an SQL condition is true for each row.

Conditions that the min and max of columns may prove: comparisons with constants, joined by AND.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import ClassVar

from sqlglot import exp

from rivet_dagster.checks.contract import Bound, Problem, Reading, RowCheck, names_an_aggregate
from rivet_dagster.model import convert
from rivet_dagster.model.proof import Compared, Constant, Every, NoNulls, OneOf, Proof
from rivet_dagster.model.schema import Schema
from rivet_dagster.sql.columns.unknown_columns import UnknownColumn, unknown_columns
from rivet_dagster.sql.error import UnreadableSql
from rivet_dagster.sql.parsing.dialect import (
    SqlError,
    parse_expression,
    quote_name,
    read_query,
    translate_parser_errors,
)
from rivet_dagster.sql.parsing.embedding import in_parentheses
from rivet_dagster.sql.trees import as_written


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
            problem = Problem(f"`{self.sql}` {error}", certain=not isinstance(error, UnreadableSql))
            return Reading(problems=(problem,))
        return Reading()

    def unknown_columns(self, joint: str, tables: Mapping[str, Schema | None]) -> Iterator[UnknownColumn]:
        text = f"SELECT * FROM {quote_name(joint)} WHERE {in_parentheses(self.sql)}"
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


def judges_rows_alone(sql: str) -> bool:
    """Return whether a condition is about one row: without a query, an aggregate or a window.

    >>> judges_rows_alone("net > 0"), judges_rows_alone("net > avg(net) OVER ()"), judges_rows_alone("net >")
    (True, False, False)
    """
    try:
        tree = parse_expression(sql)
    except SqlError:
        return False
    return not any(tree.find_all(exp.Query, exp.Window, exp.AggFunc))


_NUMBER = re.compile(r"\d{1,18}|(?=[\d.]{2,19}\Z)\d*\.\d+|(?=[\d.]{2,19}\Z)\d+\.")
"""Literals that engines compare exactly with integers and decimals: no exponent, at most 18 digits."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.EQ: "=", exp.NEQ: "<>",
}  # fmt: skip
_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "=", "<>": "<>"}


def provable(condition: exp.Expr) -> Proof | None:
    """Return what column statistics must show so that no row violates the condition; None where they cannot.

    >>> from rivet_dagster.sql.parsing.dialect import parse_expression
    >>> provable(parse_expression("0 < net"))
    Compared(proof='compared', column='net', operator='>', constant=Constant(type='number', text='0'))
    >>> provable(parse_expression("net > tax"))
    """
    with translate_parser_errors():
        parts = [_part(part) for part in _joined_by_and(condition)]
    proofs = [proof for part in parts for proof in part or ()]
    if None in parts:
        return None
    return proofs[0] if len(proofs) == 1 else Every(of=tuple(proofs))


def _joined_by_and(condition: exp.Expr) -> list[exp.Expr]:
    if isinstance(condition, exp.Paren):
        return _joined_by_and(condition.this)
    if isinstance(condition, exp.And):
        return [*_joined_by_and(condition.left), *_joined_by_and(condition.right)]
    return [condition]


def _part(condition: exp.Expr) -> tuple[Compared | OneOf | NoNulls, ...] | None:
    """Return the proofs of one condition without AND; None where there is no such proof."""
    if isinstance(condition, exp.Between):
        low = _compared(">=", condition.this, condition.args["low"])
        high = _compared("<=", condition.this, condition.args["high"])
        return (low, high) if low is not None and high is not None else None
    if isinstance(condition, exp.In):
        return _one_of(condition)
    if isinstance(condition, exp.Not) and isinstance(condition.this, exp.Is):
        name = _column(condition.this.this)
        return (NoNulls(columns=(name,)),) if name and isinstance(condition.this.expression, exp.Null) else None
    operator = _OPERATORS.get(type(condition))
    if operator is None:
        return None
    left, right = condition.this, condition.args["expression"]
    compared = _compared(operator, left, right) or _compared(_TURNED[operator], right, left)
    return (compared,) if compared is not None else None


def _one_of(condition: exp.In) -> tuple[OneOf] | None:
    name, constants = _column(condition.this), [_constant(item) for item in condition.expressions]
    if name is None or not constants or condition.args.get("query") is not None:
        return None
    known = [constant for constant in constants if constant is not None]
    # A NULL in the list makes the comparison unknown, never false, but it is not a Constant.
    return (OneOf(column=name, constants=tuple(known)),) if len(known) == len(constants) else None


def _compared(operator: str, column: exp.Expr, value: exp.Expr) -> Compared | None:
    name, constant = _column(column), _constant(value)
    return Compared(column=name, operator=operator, constant=constant) if name and constant is not None else None


def _column(tree: exp.Expr) -> str | None:
    return tree.name if isinstance(tree, exp.Column) and len(tree.parts) == 1 else None


def _constant(tree: exp.Expr) -> Constant | None:
    if isinstance(tree, exp.Boolean):
        return Constant.of(bool(tree.this))
    if isinstance(tree, exp.Cast) and tree.to.this == exp.DataType.Type.DATE:
        return _date(tree.this)
    negative = isinstance(tree, exp.Neg)
    literal = tree.this if negative else tree
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return None if negative else Constant.of(literal.name)
    if not _NUMBER.fullmatch(literal.name):
        return None
    return Constant("number", f"-{literal.name}" if negative else literal.name)


def _date(tree: exp.Expr) -> Constant | None:
    """Return the constant of a complete date literal, as in ``DATE '2026-01-31'``."""
    if not isinstance(tree, exp.Literal) or not tree.is_string or not _DATE.fullmatch(tree.name):
        return None
    try:
        date.fromisoformat(tree.name)
    except ValueError:
        return None
    return Constant("date", tree.name)
