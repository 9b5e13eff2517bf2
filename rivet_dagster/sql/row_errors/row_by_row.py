"""Queries of which each row comes from one row of the one table that they read, so that errors can travel with rows.

A chain of such queries is asked once, whatever its length. First each row of the table that the first one reads goes
through all of them with a flag, which says whether an expression has failed for it. The rows with a flag, as they were
read, then go through all of them again, with the array of their errors.

The columns of a query's input that its key columns are, so that errors below it can tell the key of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from rivet_dagster.model.row_errors import RowByRow
from rivet_dagster.sql.error import UnreadableSql
from rivet_dagster.sql.parsing.dialect import quote_name, read_query
from rivet_dagster.sql.parsing.known_query import is_deterministic
from rivet_dagster.sql.row_errors.aggregates import aggregates
from rivet_dagster.sql.row_errors.error_query import QueryLocation, errors_in_full, json_of
from rivet_dagster.sql.row_errors.fallible import Fallible, generates
from rivet_dagster.sql.row_errors.filter_and_projection_errors import conditions, failing_expressions
from rivet_dagster.sql.row_errors.raising import RefusedError, any_of, true_or_false, value_or_null
from rivet_dagster.sql.row_errors.select_clauses import SelectItem, select_of
from rivet_dagster.sql.row_errors.select_rewrite import SelectRewrite, WhereConditions
from rivet_dagster.sql.row_errors.token_ranges import Code, on_one_line

INPUT = "rivet_input"
"""The table that the texts of a RowByRow read: the rows of the query before it, or those that the first one reads."""

_READ, _FAILED, _ERRORS = "rivet_read", "rivet_failed", "rivet_errors"

_TYPE = (
    "ARRAY<STRUCT<joint: STRING, code: STRING, expression: STRING, file: STRING, line: INT, message: STRING, "
    "row: STRING, key: STRING>>"
)


def flag_rows(table: str) -> str:
    """Return the query of the rows of ``table`` as the first query of a chain reads them, none of which has failed."""
    return f"SELECT *, struct(*) AS {_READ}, false AS {_FAILED} FROM {quote_name(table)}"


def select_failed(chain: str) -> str:
    """Return the query of those of a table's rows that have failed in a ``chain`` of queries, as they were read."""
    rows = f"SELECT {_READ}, {_once(_FAILED)} AS {_FAILED} FROM {quote_name(chain)}"
    return f"SELECT {_READ}.*, CAST(NULL AS {_TYPE}) AS {_ERRORS} FROM ({rows}) WHERE {_FAILED}"


def errors(chain: str) -> str:
    """Return the query, with QUERY_COLUMNS, of the errors that a ``chain`` of queries has found."""
    return f"SELECT e.* FROM {quote_name(chain)} LATERAL VIEW inline({_ERRORS}) e"


def _once(value: str) -> str:
    """Return a value of which Spark moves no condition, and so no copy, to below the SELECT that computes it."""
    return f"IF(spark_partition_id() < 0, NULL, {value})"


def row_by_row(sql: str, location: QueryLocation, keys: Sequence[str]) -> RowByRow | None:
    """Return a query as a link of a chain; None if a row of it may come from several rows, or from none.

    >>> found = row_by_row("SELECT id, CAST(s AS INT) AS n FROM orders WHERE id > 0", QueryLocation("j"), [])
    >>> found.reads, found.failing, found.passed, found.filters
    ('orders', ('n',), (('id', 'id'),), True)
    >>> row_by_row("SELECT sum(n) AS n FROM orders", QueryLocation("j"), [])
    """
    query = read_query(sql)
    tree = query.tree
    if not isinstance(tree, exp.Select) or not _reads_one_table(tree) or not is_deterministic(query):
        return None
    code = Code.of(query.text)
    try:
        select = select_of(code, code.whole)
        for only_certain in (False, True):
            try:
                return _link(SelectRewrite(code, location, select, [], keys, only_certain))
            except RefusedError:
                continue
    except (RefusedError, UnreadableSql):
        pass
    return None


def _reads_one_table(tree: exp.Select) -> bool:
    source = tree.args.get("from_")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or set(_given(table)) - {"this", "alias"} or not table.name:
        return False
    if table.args.get("alias") is not None and table.args["alias"].args.get("columns"):
        return False
    if set(_given(tree)) - {"kind", "expressions", "from_", "where"} or tree.args.get("kind"):
        return False
    inner = (exp.Window, exp.Query, exp.Unnest, exp.Lateral)
    if any(isinstance(node, inner) for node in tree.walk() if node is not tree):
        return False
    return not any(aggregates(item) or generates(item) for item in tree.expressions)


def _given(node: exp.Expr) -> dict[str, object]:
    return {name: value for name, value in node.args.items() if value}


@dataclass(frozen=True)
class _Item:
    """An item of the SELECT list: its text, its name (empty for a star), and how it can fail."""

    text: str
    name: str = ""
    wrong: Fallible | None = None
    passed: str = ""
    """The column that it passes on."""


def _link(rewrite: SelectRewrite) -> RowByRow | None:
    (relation,) = rewrite.select.relations
    items = [_item(rewrite, item) for item in rewrite.select.items]
    known = [item for item in items if item is not None]
    if relation.name is None or len(known) < len(items):
        return None
    where = conditions(rewrite)
    expressions = failing_expressions(where, [item.wrong for item in known if item.wrong is not None])
    alias = quote_name(relation.name)
    had_failed, had_errors = f"{alias}.{_FAILED}", f"{alias}.{_ERRORS} IS NOT NULL"
    failed = errors_of_row = None
    if expressions:
        fails = any_of([one.failed for one in expressions])
        failed = f"{had_failed} OR {fails}"
        row = json_of(f"struct({alias}.* EXCEPT ({_ERRORS}))")
        errors = errors_in_full(rewrite.location, expressions, row, rewrite.key())
        errors_of_row = _once(f"CASE WHEN {had_errors} THEN {alias}.{_ERRORS} WHEN {fails} THEN {errors} END")
    return RowByRow(
        reads=rewrite.code.tokens[relation.part.start].text,
        failing=tuple(item.name.lower() for item in known if item.wrong is not None),
        passed=tuple((item.name.lower(), item.passed.lower()) for item in known if item.passed),
        passes_all=any(not item.name for item in known),
        filters=rewrite.select.clause("where") is not None,
        flags=_query(alias, known, where, had_failed, (_FAILED, _READ), failed),
        errors=_query(alias, known, where, had_errors, (_ERRORS,), errors_of_row),
    )


def _item(rewrite: SelectRewrite, item: SelectItem) -> _Item | None:
    expression = rewrite.expression(item.part)
    tree, text = expression.tree, on_one_line(expression.text)
    if tree.is_star:
        return _Item(text) if _is_plain(tree) else None
    given = rewrite.given(item)
    column = tree.name if isinstance(tree, exp.Column) else ""
    name = item.alias or column
    if given is None or not name:
        return None
    wrong = rewrite.failing(expression)
    if wrong is not None:
        rewrite.refuse_aliases(given)
    return _Item(text, name, wrong, column)


def _is_plain(star: exp.Expr) -> bool:
    return not any((star.this if isinstance(star, exp.Column) else star).args.values())


def _query(
    alias: str,
    items: Sequence[_Item],
    where: WhereConditions,
    had_failed: str,
    added: tuple[str, ...],
    value: str | None,
) -> str:
    """Return the query over INPUT that gives the items and the columns ``added``, with ``value`` in the first of them.

    Rows that ``had_failed`` stay.
    """
    rows = f"{INPUT} AS {alias}"
    conditions = [*where.clean, *(true_or_false(one.text, one.failed, "true") for one in where.failing)]
    if conditions:
        rows += f" WHERE {had_failed} OR ({' AND '.join(f'({condition})' for condition in conditions)})"
    shown = []
    for item in items:
        text = item.text
        if item.wrong is not None:
            text = item.wrong.attempt or value_or_null(item.wrong.text, any_of([had_failed, item.wrong.failed]))
        shown.append(f"{text} AS {quote_name(item.name)}" if item.name else f"{alias}.* EXCEPT ({', '.join(added)})")
    first, *others = added
    shown.append(f"{alias}.{first}" if value is None else f"{value} AS {first}")
    return f"SELECT {', '.join([*shown, *(f'{alias}.{name}' for name in others)])} FROM {rows}"


def keys_of_input(sql: str, keys: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return the one table that a query reads, in lower case, and its columns that the query gives as ``keys``.

    None if it reads several, or computes a key.

    >>> keys_of_input("SELECT o.order_id AS id, net FROM orders o WHERE net > 0", ["id"])
    ('orders', ('order_id',))
    >>> keys_of_input("SELECT id + 1 AS id FROM orders", ["id"])
    """
    tree = read_query(sql).tree if keys else None
    if not isinstance(tree, exp.Select) or tree.args.get("with_") or tree.args.get("joins"):
        return None
    source = tree.args.get("from_")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or table.args.get("db"):
        return None
    columns = [_column(tree, key) for key in keys]
    known = tuple(name for name in columns if name is not None)
    return (table.name.lower(), known) if len(known) == len(keys) else None


def _column(tree: exp.Select, key: str) -> str | None:
    for item in tree.expressions:
        if item.alias_or_name.lower() == key.lower():
            bare = item.unalias()
            return bare.name if isinstance(bare, exp.Column) else None
    return key if any(item.is_star and not _changes(item) for item in tree.expressions) else None


def _changes(star: exp.Expr) -> bool:
    """Return whether a star leaves out or replaces columns."""
    return any((star.this if isinstance(star, exp.Column) else star).args.values())
