"""The scope of a SELECT's FROM clause: tables, subqueries, VALUES, joins and lateral views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from rivet_dagster.sql.columns.scope import Column, Relation, Scope

Visible = Mapping[str, Relation]
"""Joints and CTEs by name in lower case."""

Columns = tuple[Column, ...] | None
OfQuery = Callable[[exp.Expr, Visible, Scope | None], Columns]
OfExpression = Callable[[exp.Expr, Visible, Scope], Column]


def scope_of(
    select: exp.Select, visible: Visible, outer: Scope | None, of_query: OfQuery, of_expression: OfExpression
) -> Scope:
    """Return the scope of the names in ``select``; ``of_query`` and ``of_expression`` analyze the parts of its FROM."""
    scope = Scope(outer)

    def relation(item: exp.Expr) -> Relation:
        return _aliased(_relation(item, visible, scope, of_query, of_expression), item)

    start = select.args.get("from_")
    if start is not None:
        scope.add(start.this.alias_or_name, relation(start.this))
    for join in select.args.get("joins") or ():
        _join(scope, join, relation(join.this))
    for lateral in select.args.get("laterals") or ():
        scope.add(lateral.alias, relation(lateral))
    return scope


def values(item: exp.Values, of_expression: OfExpression) -> Columns:
    """Return the columns of a VALUES clause, named ``col1``, ``col2``..., with a type where all rows agree.

    >>> from rivet_dagster.sql.parsing.dialect import read_query
    >>> [c.name for c in values(read_query("VALUES (1, 'a'), (2, 'b')").tree, lambda *_: Column(""))]
    ['col1', 'col2']
    """
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in item.expressions]
    if len({len(row) for row in rows}) != 1:
        return None
    empty = Scope()
    columns = []
    for position, cells in enumerate(zip(*rows, strict=True), 1):
        cell_columns = [of_expression(cell, {}, empty) for cell in cells]
        kinds = {cell.type for cell in cell_columns}
        columns.append(Column(f"col{position}", kinds.pop() if len(kinds) == 1 else None, _all(cell_columns)))
    return tuple(columns)


def _join(scope: Scope, join: exp.Join, relation: Relation) -> None:
    alias = join.this.alias_or_name
    kind, side = (join.args.get("kind") or "").upper(), (join.args.get("side") or "").upper()
    left_only = kind in ("SEMI", "ANTI")
    using = [column.name for column in join.args.get("using") or ()]
    natural = (join.args.get("method") or "").upper() == "NATURAL"
    if using or natural:
        scope.merge(None if natural else using, relation, alias, kind if left_only else side)
    elif not left_only:
        scope.add(alias, relation)


def _relation(
    item: exp.Expr, visible: Visible, scope: Scope, of_query: OfQuery, of_expression: OfExpression
) -> Relation:
    if item.args.get("pivots") or item.args.get("joins"):
        return Relation(None)
    if isinstance(item, exp.Table):
        if item.args.get("db"):
            return Relation(None, qualified=True)
        if isinstance(item.this, exp.Identifier):
            return visible.get(item.name.lower(), Relation(None))
        return _function(item.this)
    if isinstance(item, exp.Subquery):
        return Relation(of_query(item, visible, scope.outer))
    if isinstance(item, exp.Values):
        return Relation(values(item, of_expression))
    if isinstance(item, exp.Lateral):
        return _lateral(item, visible, scope, of_query, of_expression)
    return Relation(None)


def _lateral(
    item: exp.Lateral, visible: Visible, scope: Scope, of_query: OfQuery, of_expression: OfExpression
) -> Relation:
    """Return the relation of a subquery that sees the preceding items, or of a generator over their columns."""
    if isinstance(item.this, exp.Subquery):
        return Relation(of_query(item.this, visible, scope))
    names = _alias_columns(item)
    if not names:
        return Relation(None)
    generated = of_expression(item.this, visible, scope)
    element = _element_type(item.this, visible, scope, of_expression) if len(names) == 1 else None
    return Relation(tuple(Column(name, element, generated.origins) for name in names))


def _element_type(generator: exp.Expr, visible: Visible, scope: Scope, of_expression: OfExpression) -> str | None:
    kind = of_expression(generator.this, visible, scope).type if isinstance(generator, exp.Explode) else None
    return kind[len("array<") : -1] if kind is not None and kind.startswith("array<") else None


def _function(call: exp.Expr) -> Relation:
    if isinstance(call, exp.Anonymous) and call.name.lower() == "range":
        return Relation((Column("id", "bigint", frozenset()),))
    return Relation(None)


def _aliased(relation: Relation, item: exp.Expr) -> Relation:
    names = _alias_columns(item)
    if not names or (isinstance(item, exp.Lateral) and not isinstance(item.this, exp.Subquery)):
        return relation
    return relation.renamed(names)


def _alias_columns(item: exp.Expr) -> Sequence[str]:
    alias = item.args.get("alias")
    return [column.name for column in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []


def _all(columns: Sequence[Column]) -> frozenset[tuple[str, str]] | None:
    origins: frozenset[tuple[str, str]] = frozenset()
    for column in columns:
        if column.origins is None:
            return None
        origins |= column.origins
    return origins
