"""Recursive queries on an engine that has none: a fixed number of levels, each a query over the one before."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.translation.model import Named, NotProven
from rivet_dagster.sql.translation.scope import column_of, quoted
from rivet_dagster.sql.translation.templates import call, cast

MOST_LEVELS = 8
"""How often the step is applied; the engine plans each level anew within each later one."""
LEVELS = f"WITH RECURSIVE of up to {MOST_LEVELS} levels"
"""The clause of the list of such an engine."""
_MESSAGE = f"RVT-329: a recursive query of more than {MOST_LEVELS} levels, the last with rows: "


def unroll(
    start: exp.Expr, step: exp.Expr, name: str, columns: Sequence[Named], dialect: str
) -> tuple[list[exp.CTE], exp.Expr]:
    """Return the levels of a recursive query, and the query of all their rows, which fails if there are more levels.

    Raise NotProven for a step that reads the rows of the level before more than once.
    """
    if sum(table.name == name for table in step.find_all(exp.Table)) != 1:
        raise NotProven("a recursive query whose step reads it more than once", step)
    names = [f"{name} {level}" for level in range(MOST_LEVELS + 1)]
    bodies = [start]
    for before in names[:-1]:
        body = step.copy()
        for table in body.find_all(exp.Table):
            if table.name == name:
                table.set("this", quoted(before))
        bodies.append(body)
    levels = [
        exp.CTE(this=body, alias=exp.TableAlias(this=quoted(each))) for each, body in zip(names, bodies, strict=True)
    ]
    whole: exp.Expr = _rows_of(names[0])
    for each in names[1:-1]:
        whole = exp.Union(this=whole, expression=_rows_of(each), distinct=False)
    return levels, exp.Union(this=whole, expression=_failing(names[-1], columns, dialect), distinct=False)


def _rows_of(name: str) -> exp.Select:
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Table(this=quoted(name))))


def _failing(name: str, columns: Sequence[Named], dialect: str) -> exp.Select:
    """Return a query that fails if a table has rows, whichever of its columns are read; of none it has no rows.

    The rows are counted, as an engine may evaluate an expression before the conditions of the rows that it is of; and
    it may compute what depends on no row even for none.
    """
    counted = exp.Select(
        expressions=[exp.Alias(this=call("count", exp.Star()), alias=quoted("n"))],
        from_=exp.From(this=exp.Table(this=quoted(name))),
    )
    has_rows = exp.GT(this=column_of("level", "n"), expression=exp.Literal.number(0))
    number = cast(column_of("level", "n"), "string", dialect)
    error = call("raise_error", call("concat", exp.Literal.string(_MESSAGE), number))
    failing = exp.Case(ifs=[exp.If(this=has_rows, true=error)])
    items = [
        exp.Alias(this=cast(failing.copy(), str(column.type), dialect), alias=quoted(column.name)) for column in columns
    ]
    condition = exp.Case(
        ifs=[exp.If(this=has_rows.copy(), true=exp.Is(this=error.copy(), expression=exp.Null()))], default=exp.false()
    )
    source = exp.Subquery(this=counted, alias=exp.TableAlias(this=quoted("level")))
    return exp.Select(expressions=items, from_=exp.From(this=source), where=exp.Where(this=condition))
