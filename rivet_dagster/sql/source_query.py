"""A source's inline transforms: one table, columns, a filter and a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from rivet_dagster.cache import CompileCache
from rivet_dagster.model.text_lines import Stretch, TextLocation
from rivet_dagster.sql.parsing.dialect import SqlError, parse_expression, quote_name, translate_parser_errors
from rivet_dagster.sql.parsing.embedding import in_parentheses
from rivet_dagster.sql.parsing.known_query import NON_DETERMINISTIC


def projection(name: str, columns: Sequence[tuple[str, str | None]], filter: str | None, limit: int | None) -> str:
    """Return the query of a source.

    >>> print(projection("raw", [("id", None), ("total", "net * 1.2")], "net > 0", None))
    SELECT id, net * 1.2 AS total
    FROM raw
    WHERE net > 0
    """
    items = [_item(alias, text) for alias, text in columns] or ["*"]
    return "\n".join([f"SELECT {', '.join(items)}", *(clause for _, clause in _clauses(name, filter, limit))])


def projection_by_line(
    name: str,
    columns: Sequence[tuple[str, str | None]],
    filter: str | None,
    limit: int | None,
    lines: Mapping[str, int],
) -> tuple[str, tuple[Stretch, ...]]:
    """Return the query of a source, each expression on a line of its own, and from where in its file the lines come.

    ``lines`` are the lines of the keys ``filter`` and ``columns.`` with an alias.

    >>> text, locations = projection_by_line("raw", [("id", None), ("n", "a / b")], None, None, {"columns.n": 7})
    >>> print(text)
    SELECT
    id,
    a / b AS n
    FROM raw
    >>> locations
    (Stretch(first=3, place=TextLocation(line=7, file=None, calls=())),)
    """
    items = [(f"columns.{alias}", _item(alias, text)) for alias, text in columns] or [("", "*")]
    separated = [(key, f"{item},") for key, item in items[:-1]]
    locations, line = [], 1
    pieces = [("", "SELECT"), *separated, items[-1], *_clauses(name, filter, limit)]
    for key, piece in pieces:
        if key in lines:
            # An expression in parentheses begins on the line below the first one.
            first = line + (piece.partition("\n")[0] in ("(", "WHERE ("))
            locations.append(Stretch(first, TextLocation(lines[key])))
        line += piece.count("\n") + 1
    return "\n".join(piece for _, piece in pieces), tuple(locations)


def underscored_columns(columns: Sequence[tuple[str, str | None]], filter: str | None) -> list[str]:
    """Return the columns that the expressions of a source use whose names begin with an underscore, in order.

    >>> underscored_columns([("_id", None), ("file", "_metadata.file_name")], "exists(a, _x -> _x > 0)")
    ['_metadata']
    """
    texts = [text for _, text in columns] + [filter]
    underscored: dict[str, None] = {}
    for tree in [parse_expression(text) for text in texts if text is not None and "_" in text]:
        parameters = {name.name for inner in tree.find_all(exp.Lambda) for name in inner.expressions}
        names = [column.parts[0].name for column in tree.find_all(exp.Column)]
        underscored |= dict.fromkeys([name for name in names if name.startswith("_") and name not in parameters])
    return list(underscored)


def used_columns(columns: Sequence[tuple[str, str | None]], filter: str | None) -> list[str]:
    """Return the columns of the table that columns and the filter of a source use, in lower case.

    >>> used_columns([("id", None), ("total", "Net + t.tax")], "id > 0")
    ['id', 'net', 't', 'tax']
    """
    names = {alias.lower(): None for alias, text in columns if text is None}
    texts = [text for _, text in columns if text is not None] + ([] if filter is None else [filter])
    for tree in map(parse_expression, texts):
        names |= {part.name.lower(): None for column in tree.find_all(exp.Column) for part in column.parts}
    return list(names)


def check_source_expression(sql: str, cache: CompileCache) -> None:
    """Raise SqlError unless ``sql`` depends on one row only: no subquery, aggregate, window or non-determinism."""
    if cache.get("expression", sql) is None:
        tree = parse_expression(sql)
        with translate_parser_errors():
            _check(tree)
        cache.put("expression", sql, True)


def _item(alias: str, text: str | None) -> str:
    return quote_name(alias) if text is None else f"{_set_apart(text)} AS {quote_name(alias)}"


def _clauses(name: str, filter: str | None, limit: int | None) -> list[tuple[str, str]]:
    """Return the clauses behind the items, each with the source's key that it is about."""
    clauses = [("", f"FROM {quote_name(name)}")]
    clauses += [("filter", f"WHERE {_set_apart(filter)}")] if filter is not None else []
    return clauses + ([("limit", f"LIMIT {limit}")] if limit is not None else [])


def _set_apart(text: str) -> str:
    """Return an expression, in parentheses where what follows could become a part of a comment."""
    return in_parentheses(text) if "\n" in text or "--" in text or "/*" in text else text


def _check(tree: exp.Expr) -> None:
    for node in tree.walk():
        if isinstance(node, exp.Query):
            raise SqlError("holds a subquery")
        if isinstance(node, exp.AggFunc | exp.Window):
            raise SqlError("aggregates over rows")
        name = node.sql_name().lower() if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous) else ""
        if isinstance(node, exp.Anonymous):
            name = node.name.lower()
        if name in NON_DETERMINISTIC:
            raise SqlError(f"uses {name}, which gives another result each time")
