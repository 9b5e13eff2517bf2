"""The queries of quality checks, built from trees; a user's expression stands in them as written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks

from rivet_dagster.model.check import Check
from rivet_dagster.sql.balance import in_parentheses, on_lines_of_its_own
from rivet_dagster.sql.check_query import query_of_check

ROWS = "row_count"
"""The column of a pass that counts all rows."""

COPIES = "rows_of_this_key"
"""The column that says how often a duplicate key occurs."""


@dataclass(frozen=True)
class CheckQuery:
    """A query and the values of its named parameters."""

    sql: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


def names_of_a_pass(column: str) -> bool:
    """Whether ``one_pass`` has a column of that name, which an expression in it may mean."""
    return column.lower() == ROWS or column.lower().startswith("check_")


def shares_a_pass(check: Check) -> bool:
    """Whether the check can take part in one pass over the rows; the others take a query each, or none at all."""
    return check.kind not in ("unique", "relationship", "custom", "schema")


def one_pass(relation: str, checks: Sequence[Check]) -> CheckQuery:
    """One aggregate over ``relation``: all rows as ROWS, each check's violations as ``check_<position>``.

    >>> from rivet_dagster.model.check import Check
    >>> check = Check(kind="not_null", name="n", phase="assertion", columns=("id",))
    >>> one_pass("orders", [check]).sql
    'SELECT COUNT(*) AS `row_count`, COUNT_IF(`id` IS NULL) AS `check_0` FROM `orders`'
    """
    select = exp.select(exp.alias_(_count(), ROWS, quoted=True)).from_(_identifier(relation))
    parameters: dict[str, Any] = {}
    for position, check in enumerate(checks):
        if check.kind == "row_count":
            continue
        counted, values = _counted(check, f"check_{position}_")
        parameters |= values
        select = select.select(exp.alias_(counted, f"check_{position}", quoted=True))
    return CheckQuery(_text(select), parameters)


def violations_of_pass(check: Check, position: int, row: Mapping[str, Any]) -> int:
    """How many violations of ``check`` the row of ``one_pass`` reports; for a row_count, rows too few or too many."""
    if check.kind != "row_count":
        return int(row[f"check_{position}"])
    return count_violations(check, int(row[ROWS]))


def count_violations(check: Check, rows: int) -> int:
    """By how many rows a table of ``rows`` rows misses the bounds of a row_count check."""
    if check.min is not None and rows < check.min:
        return check.min - rows
    if check.max is not None and rows > check.max:
        return rows - check.max
    return 0


def alone(relation: str, check: Check) -> CheckQuery:
    """The query of a check that shares no pass (unique, relationship, custom), its violations as ``violations``."""
    counted = exp.alias_(_count(), "violations", quoted=True)
    if check.kind == "custom":
        return CheckQuery(_text(exp.select(counted).from_(_custom(relation, check))))
    if check.kind == "relationship":
        return CheckQuery(_text(_without_counterpart(relation, check, counted)))
    return _surplus(relation, check)


def _surplus(relation: str, check: Check) -> CheckQuery:
    """The surplus rows of a ``unique`` check, as ``violations``; a key with a NULL in it repeats nothing."""
    groups = _duplicate_groups(relation, check).subquery("duplicate")
    surplus = exp.Sub(this=exp.column(COPIES, quoted=True), expression=exp.Literal.number(1))
    total = exp.Coalesce(this=exp.Sum(this=surplus), expressions=[exp.Literal.number(0)])
    return CheckQuery(_text(exp.select(exp.alias_(total, "violations", quoted=True)).from_(groups)))


def violating_rows(relation: str, check: Check, limit: int) -> CheckQuery | None:
    """Up to ``limit`` rows that break ``check``; None where no single row does (row_count, schema).

    Of a freshness check it is the one row that holds the newest value.
    """
    if check.kind in ("row_count", "schema"):
        return None
    if check.kind == "custom":
        return CheckQuery(_text(exp.select("*").from_(_custom(relation, check)).limit(limit)))
    if check.kind == "relationship":
        return CheckQuery(_text(_without_counterpart(relation, check, exp.Star()).limit(limit)))
    if check.kind == "freshness":
        newest = exp.alias_(exp.Max(this=_column(check.columns[0])), "newest", quoted=True)
        return CheckQuery(_text(exp.select(newest).from_(_identifier(relation))))
    if check.kind == "unique":
        groups = _duplicate_groups(relation, check)
        most = exp.Ordered(this=exp.column(COPIES, quoted=True), desc=True)
        return CheckQuery(_text(groups.select(*[_column(c) for c in check.columns]).order_by(most).limit(limit)))
    broken, values = _broken(check, "")
    rows = exp.select("*").from_(_identifier(relation)).limit(limit)
    rows.set("where", exp.Where(this=broken))
    return CheckQuery(_text(rows), values)


def shown(relation: str, check: Check) -> CheckQuery:
    """The check's own query alone, as a person would run it."""
    if check.kind == "schema":
        return CheckQuery(_text(exp.select("*").from_(_identifier(relation))))
    if not shares_a_pass(check):
        return alone(relation, check)
    if check.kind == "row_count":
        return CheckQuery(_text(exp.select(exp.alias_(_count(), ROWS, quoted=True)).from_(_identifier(relation))))
    counted, values = _counted(check, "")
    named = exp.alias_(counted, "violations", quoted=True)
    return CheckQuery(_text(exp.select(named).from_(_identifier(relation))), values)


def _counted(check: Check, prefix: str) -> tuple[exp.Expr, dict[str, Any]]:
    """The aggregate that counts the violations of a check, and the values of its parameters."""
    if check.kind == "freshness":
        return _too_old(check, f"{prefix}max_age")
    broken, values = _broken(check, prefix)
    return exp.CountIf(this=broken), values


def _too_old(check: Check, parameter: str) -> tuple[exp.Expr, dict[str, Any]]:
    """1 where the newest value is older than the check allows, or there is none; else 0."""
    zero, one = exp.Literal.number(0), exp.Literal.number(1)
    age = exp.func("MAKE_DT_INTERVAL", zero.copy(), zero.copy(), zero.copy(), exp.Placeholder(this=parameter))
    oldest = exp.Sub(this=exp.CurrentTimestamp(), expression=age)
    newest = exp.Max(this=_column(check.columns[0]))
    fresh = exp.If(this=exp.GTE(this=newest, expression=oldest), true=zero)
    return exp.Case(ifs=[fresh], default=one), {parameter: check.max_age}


def _custom(relation: str, check: Check) -> exp.Subquery:
    """The author's own query, as written, as a relation."""
    assert check.sql is not None
    text = exp.Var(this=on_lines_of_its_own(query_of_check(check.sql, relation)))
    return exp.Subquery(this=text, alias=exp.TableAlias(this=exp.to_identifier("violation", quoted=True)))


def _broken(check: Check, prefix: str) -> tuple[exp.Expr, dict[str, Any]]:
    """The condition under which a row breaks ``check``: true, never NULL, counts."""
    if check.kind == "not_null":
        return exp.or_(*[exp.Is(this=_column(c), expression=exp.Null()) for c in check.columns]), {}
    if check.kind == "accepted_values":
        values = {f"{prefix}value_{n}": value for n, value in enumerate(check.values)}
        accepted = exp.In(this=_column(check.columns[0]), expressions=[exp.Placeholder(this=name) for name in values])
        return exp.Not(this=accepted), values
    if check.kind == "expression":
        assert check.sql is not None
        return exp.Var(this=f"NOT {in_parentheses(check.sql)}"), {}
    raise AssertionError(f"no condition for a {check.kind} check")


def _without_counterpart(relation: str, check: Check, selected: exp.Expr) -> exp.Select:
    """``selected`` of the rows whose value, no NULL, is not among those of the column that the check leads to."""
    assert check.to is not None
    other, target = check.to
    value, key = _column(check.columns[0], "judged"), _column(target, "referenced")
    found = exp.select("1").from_(_identifier(other, "referenced")).where(exp.EQ(this=key, expression=value.copy()))
    present = exp.Not(this=exp.Is(this=value, expression=exp.Null()))
    missing = exp.Not(this=exp.Exists(this=found))
    return exp.select(selected).from_(_identifier(relation, "judged")).where(present, missing)


def _duplicate_groups(relation: str, check: Check) -> exp.Select:
    keys = [_column(c) for c in check.columns]
    present = exp.and_(*[exp.Not(this=exp.Is(this=key.copy(), expression=exp.Null())) for key in keys])
    repeated = exp.GT(this=_count(), expression=exp.Literal.number(1))
    counted = exp.alias_(_count(), COPIES, quoted=True)
    return exp.select(counted).from_(_identifier(relation)).where(present).group_by(*keys).having(repeated)


def _count() -> exp.Count:
    return exp.Count(this=exp.Star(), big_int=True)


def _column(name: str, table: str | None = None) -> exp.Expr:
    """A column as the user names it: dots reach into structs, so only plain names are quoted whole."""
    parts = [exp.to_identifier(part, quoted=True) for part in name.split(".")]
    first = exp.Column(this=parts[0], table=exp.to_identifier(table))
    return first if len(parts) == 1 else exp.Dot.build([first, *parts[1:]])


def _identifier(name: str, alias: str | None = None) -> exp.Table:
    named = exp.TableAlias(this=exp.to_identifier(alias)) if alias is not None else None
    return exp.Table(this=exp.to_identifier(name, quoted=True), alias=named)


def _text(select: exp.Select) -> str:
    return select.sql(dialect=Databricks)
