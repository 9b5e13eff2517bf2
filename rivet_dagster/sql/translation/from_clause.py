"""The FROM clause of a SELECT: tables, queries, joins, lateral queries and arrays whose elements become rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from rivet_dagster.sql.translation.expressions import Expressions
from rivet_dagster.sql.translation.item_names import shown
from rivet_dagster.sql.translation.model import Named, NotProven, TypedExpression, TypeUnknown
from rivet_dagster.sql.translation.scope import SelectScope, column_of, quoted
from rivet_dagster.sql.translation.spark_types import element, wider
from rivet_dagster.sql.translation.subqueries import ANY_SUBQUERY, is_one_row, outer_columns
from rivet_dagster.sql.translation.templates import atom, call, cast


@dataclass(frozen=True)
class VisibleTable:
    """Something that a FROM can name: the name of it there, and its columns, None where they are not known."""

    name: str
    columns: Sequence[Named] | None


Visible = Mapping[str, VisibleTable]
Translated = tuple[exp.Expr, Sequence[Named] | None]
OfQuery = Callable[[exp.Expr, Visible, SelectScope | None], Translated]

_SIDES = {"", "LEFT", "RIGHT", "FULL"}
_KINDS = {"", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"}


class FromClause:
    """Translates the FROM of one SELECT, and fills its scope."""

    def __init__(self, expressions: Expressions, of_query: OfQuery, visible: Visible, scope: SelectScope) -> None:
        self._expressions = expressions
        self._of_query = of_query
        self._visible = visible
        self.scope = scope
        self._clauses = expressions.support.clauses
        self._dialect = expressions.support.dialect

    def fill(self, select: exp.Select, made: exp.Select) -> None:
        """Add to ``made`` the FROM, the joins and the lateral views of ``select``."""
        start = select.args.get("from_")
        if start is None:
            if select.args.get("joins") or select.args.get("laterals"):
                raise NotProven("a join without FROM", select)
            if any("explode" in call.name.lower() for call in select.find_all(exp.Anonymous)):
                one_row = exp.Subquery(this=exp.Select(expressions=[exp.Literal.number(1)]))
                one_row.set("alias", exp.TableAlias(this=quoted(self._expressions.new_name())))
                made.set("from_", exp.From(this=one_row))
            return
        tree, alias, columns = self._item(start.this)
        self.scope.add(alias, columns)
        made.set("from_", exp.From(this=tree))
        for join in select.args.get("joins") or ():
            self.add(made, self._join(join))
        for lateral in select.args.get("laterals") or ():
            self.add(made, self._generated(lateral))

    def add(self, made: exp.Select, generated: exp.Expr | None) -> None:
        """Add the rows of a generator to ``made``, as a join or as a LATERAL VIEW; None adds nothing."""
        if generated is not None:
            made.append("joins" if isinstance(generated, exp.Join) else "laterals", generated)

    def require(self, clause: str, node: exp.Expr) -> None:
        """Refuse a clause that is not listed."""
        if clause not in self._clauses:
            raise NotProven(clause, node)

    def _item(self, item: exp.Expr) -> tuple[exp.Expr, str, Sequence[Named] | None]:
        alias = item.args.get("alias")
        names = [name.name for name in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
        written = {key for key, value in item.args.items() if value} - {"this", "alias", "expressions"}
        if written:
            raise NotProven(f"{sorted(written)[0].upper()} in FROM", item)
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Anonymous) and item.this.name.lower() == "range":
            rows, ids = self._range(item.this)
            return self._aliased(rows, item.alias or self._expressions.new_name(), ids, names)
        if isinstance(item, exp.Table):
            table = self._visible.get(item.name.lower()) if isinstance(item.this, exp.Identifier) else None
            if table is None:
                raise NotProven(f"the table {item.name or shown(item.this)}, which is none of the joints", item)
            return self._aliased(exp.Table(this=quoted(table.name)), item.alias or item.name, table.columns, names)
        if isinstance(item, exp.Subquery):
            tree, columns = self._of_query(item.this, self._visible, self.scope.outer)
            return self._aliased(exp.Subquery(this=tree), item.alias or self._expressions.new_name(), columns, names)
        if isinstance(item, exp.Values):
            self.require("VALUES", item)
            tree, columns = values(item, self._expressions)
            return self._aliased(exp.Subquery(this=tree), item.alias or self._expressions.new_name(), columns, names)
        raise NotProven(shown(item), item)

    def _range(self, function: exp.Anonymous) -> tuple[exp.Expr, Sequence[Named]]:
        """Return the rows of ``range`` between whole numbers as a query."""
        self.require("range", function)
        bounds = function.expressions
        if not 1 <= len(bounds) <= 2 or not all(isinstance(bound, exp.Literal) and bound.is_int for bound in bounds):
            raise NotProven("range() of other values than one or two whole numbers that are not negative", function)
        column = "range" if self._dialect == "duckdb" else "id"
        item = exp.Alias(this=cast(exp.column(column), "bigint", self._dialect), alias=quoted("id"))
        rows = exp.Table(this=call("range", *(bound.copy() for bound in bounds)))
        query = exp.Select(expressions=[item], from_=exp.From(this=rows))
        return exp.Subquery(this=query), [Named("id", "bigint", column_of("", "id"))]

    def _aliased(
        self, tree: exp.Expr, alias: str, columns: Sequence[Named] | None, names: Sequence[str]
    ) -> tuple[exp.Expr, str, Sequence[Named] | None]:
        """Return a FROM item under its alias, and its columns as others refer to them.

        A list of new names makes a query of the item, as engines read lists with too few names unlike Spark.
        """
        if names:
            if columns is None or len(columns) != len(names):
                raise TypeUnknown("a list of names over columns that are not known", tree)
            inner = self._expressions.new_name()
            items = [
                exp.Alias(this=column_of(inner, column.name), alias=quoted(name))
                for column, name in zip(columns, names, strict=True)
            ]
            tree.set("alias", exp.TableAlias(this=quoted(inner)))
            tree = exp.Subquery(this=exp.Select(expressions=items, from_=exp.From(this=tree)))
            columns = [Named(n, c.type, c.tree, c.refused) for c, n in zip(columns, names, strict=True)]
        tree.set("alias", exp.TableAlias(this=quoted(alias)))
        if columns is None:
            return tree, alias, None
        repeated = len({column.name.lower() for column in columns}) < len(columns)
        if repeated:
            raise NotProven(f"columns of the same name in {alias}", tree)
        return tree, alias, [Named(c.name, c.type, column_of(alias, c.name), c.refused) for c in columns]

    def _join(self, join: exp.Join) -> exp.Expr | None:
        written = {key for key, value in join.args.items() if value} - {"this", "side", "kind", "on", "using", "method"}
        if written:
            raise NotProven(f"JOIN {sorted(written)[0].upper()}", join)
        side, kind = (str(join.args.get(key) or "").upper() for key in ("side", "kind"))
        method = str(join.args.get("method") or "").upper()
        name = " ".join(filter(None, [method, side, kind.replace("OUTER", "").replace("INNER", "")])) + " JOIN"
        if side not in _SIDES or kind not in _KINDS or method not in ("", "NATURAL"):
            raise NotProven(name, join)
        self.require(name.strip(), join)
        if isinstance(join.this, exp.Lateral):
            if side or join.args.get("on") or join.args.get("using") or method:
                raise NotProven("LATERAL in a join", join)
            return self._lateral(join.this)
        before = list(self.scope.visible)
        tree, alias, columns = self._item(join.this)
        half = kind in ("SEMI", "ANTI")
        self.scope.add(alias, columns, shown=True)
        using = [column.name for column in join.args.get("using") or ()]
        if method or using:
            condition = self._merge(before, columns, None if method else using, side, half, join)
        else:
            on = join.args.get("on")
            condition = self._expressions.condition(on, self.scope) if on is not None else None
        if half:
            self.scope.items.pop()
            self.scope.visible = before
        if condition is None:
            if side or half:
                raise NotProven(f"{name} without a condition", join)
            return exp.Join(this=tree, kind="CROSS")
        side = "LEFT" if half and self._dialect != "duckdb" else side
        return exp.Join(this=tree, side=side or None, kind=kind if half else None, on=condition)

    def _merge(
        self,
        before: Sequence[Named],
        columns: Sequence[Named] | None,
        names: Sequence[str] | None,
        side: str,
        half: bool,
        join: exp.Join,
    ) -> exp.Expr | None:
        """Return the condition of a join by USING or NATURAL, whose columns are one in the scope."""
        if columns is None or any(item.columns is None for item in self.scope.items):
            raise TypeUnknown("USING over columns that are not known", join)
        right = {column.name.lower(): column for column in columns}
        if names is None:
            if {c.name.lower() for c in before} & set(right) != {
                c.name.lower() for c in before if c.name in {r.name for r in columns}
            }:
                raise NotProven("NATURAL JOIN over names in different letter case", join)
            names = [column.name for column in before if column.name.lower() in right]
        merged, condition = [], None
        for name in names:
            left = [column for column in before if column.name.lower() == name.lower()]
            other = right.get(name.lower())
            if len(left) != 1 or other is None or left[0].type is None or left[0].type != other.type:
                raise NotProven(f"USING ({name}) over columns of different or unknown types", join)
            equal = self._expressions.apply(
                "=", [TypedExpression(left[0].tree, left[0].type), TypedExpression(other.tree, other.type)], join
            )
            condition = equal.tree if condition is None else exp.And(this=condition, expression=equal.tree)
            tree = {"RIGHT": other.tree, "FULL": call("coalesce", left[0].tree.copy(), other.tree.copy())}.get(
                side, left[0].tree
            )
            merged.append(Named(left[0].name if side != "RIGHT" else other.name, left[0].type, tree))
        lower = {name.lower() for name in names}
        rest = [c for c in [*before, *([] if half else columns)] if c.name.lower() not in lower]
        if not half:
            self.scope.visible = [*merged, *rest]
        return condition

    def _lateral(self, lateral: exp.Lateral) -> exp.Expr | None:
        if not isinstance(lateral.this, exp.Subquery):
            return self._generated(lateral)
        self.require("LATERAL query", lateral)
        tree, columns = self._of_query(lateral.this.this, self._visible, self.scope)
        alias = lateral.args.get("alias")
        names = [name.name for name in alias.args.get("columns") or ()] if alias is not None else []
        shown_as = lateral.alias or self._expressions.new_name()
        if ANY_SUBQUERY not in self._clauses and tree.args.get("from_") is not None and outer_columns(tree):
            self.scope.add(shown_as, self._as_values(tree, columns, names, lateral))
            return None
        item, _, found = self._aliased(exp.Subquery(this=tree), shown_as, columns, names)
        self.scope.add(shown_as, found)
        given = item.args.pop("alias", None)
        return exp.Join(this=exp.Lateral(this=item, alias=given), kind="CROSS")

    def _as_values(
        self, tree: exp.Expr, columns: Sequence[Named] | None, names: Sequence[str], node: exp.Expr
    ) -> Sequence[Named]:
        """Return the columns of a lateral query of one row as queries that each have one of them as a value."""
        if columns is None or not is_one_row(tree, self._expressions.support):
            raise NotProven("LATERAL with a correlated query other than an aggregate", node)
        if names and len(names) != len(columns):
            raise TypeUnknown("a list of names over columns that are not known", node)
        found = []
        for position, (column, name) in enumerate(zip(columns, names or [c.name for c in columns], strict=True)):
            query = tree.copy()
            query.set("expressions", [query.expressions[position]])
            found.append(Named(name, column.type, exp.Subquery(this=query), column.refused))
        return found

    def _generated(self, lateral: exp.Lateral) -> exp.Expr:
        """Return the join with a generator: ``LATERAL VIEW explode(...)``, or ``LATERAL explode(...)``."""
        alias = lateral.args.get("alias")
        names = [name.name for name in alias.args.get("columns") or ()] if alias is not None else []
        name = alias.name if alias is not None and alias.this is not None else self._expressions.new_name()
        return self.generate(lateral.this, name, names, bool(lateral.args.get("outer")))

    def generate(self, function: exp.Expr, alias: str, names: Sequence[str], outer: bool) -> exp.Expr:
        """Return the join with the rows that a generator makes of an array, and add its columns to the scope."""
        word = function.name.lower() if isinstance(function, exp.Anonymous) else ""
        outer = outer or word.endswith("_outer")
        positions = word.startswith("posexplode")
        if word.removesuffix("_outer") not in ("explode", "posexplode") or len(function.expressions) != 1:
            raise NotProven(f"the generator {word or shown(function)}", function)
        self.require(f"{word.removesuffix('_outer')}{' OUTER' if outer else ''}", function)
        array = self._expressions.known(function.expressions[0], self.scope)
        inner = element(str(array.type))
        if inner is None:
            raise NotProven(f"{word} of {array.type}", function)
        names = names or (["pos", "col"] if positions else ["col"])
        if len(names) != (2 if positions else 1):
            raise NotProven(f"{word} with {len(names)} names", function)
        kinds = ["int", inner] if positions else [inner]
        self.scope.add(alias, [Named(n, k, column_of(alias, n)) for n, k in zip(names, kinds, strict=True)])
        if self._dialect != "duckdb":
            tree = exp.Lateral(
                this=call("posexplode" if positions else "explode", array.tree),
                view=True,
                outer=outer,
                alias=exp.TableAlias(this=_verbatim(alias), columns=[quoted(n) for n in names]),
            )
            return tree
        items = [exp.Alias(this=call("unnest", array.tree.copy()), alias=quoted(names[-1]))]
        if positions:
            indexes = exp.Sub(
                this=call("generate_subscripts", array.tree.copy(), exp.Literal.number(1)),
                expression=exp.Literal.number(1),
            )
            items.insert(0, exp.Alias(this=cast(exp.Paren(this=indexes), "int", self._dialect), alias=quoted(names[0])))
        rows = exp.Lateral(
            this=exp.Subquery(this=exp.Select(expressions=items)), alias=exp.TableAlias(this=quoted(alias))
        )
        return exp.Join(this=rows, side="LEFT", on=exp.true()) if outer else exp.Join(this=rows, kind="CROSS")


def _verbatim(alias: str) -> exp.Identifier:
    """Return the name of a LATERAL VIEW, which the generator does not quote."""
    return exp.to_identifier("`" + alias.replace("`", "``") + "`", quoted=False)


def values(item: exp.Values, expressions: Expressions) -> tuple[exp.Expr, Sequence[Named]]:
    """Return a VALUES clause as a query, and its columns ``col1``, ``col2``..."""
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in item.expressions]
    if len({len(row) for row in rows}) != 1:
        raise NotProven("VALUES", item)
    empty = SelectScope()
    cells = [
        [expressions.known(cell.this if isinstance(cell, exp.Alias) else cell, empty) for cell in row] for row in rows
    ]
    kinds: list[str] = []
    for column in zip(*cells, strict=True):
        both: str | None = "void"
        for cell in column:
            both = wider(both, str(cell.type)) if both is not None else None
        if both is None:
            raise NotProven("VALUES of different types", item)
        kinds.append(both)
    selects: list[exp.Expr] = []
    for row in cells:
        made = []
        for position, (cell, kind) in enumerate(zip(row, kinds, strict=True), 1):
            tree = cell.tree if kind == "void" else expressions.cast(cell, kind, item).tree
            made.append(exp.Alias(this=atom(tree), alias=quoted(f"col{position}")))
        selects.append(exp.Select(expressions=made))
    columns = [Named(f"col{n}", kind, column_of("", f"col{n}")) for n, kind in enumerate(kinds, 1)]
    tree = selects[0]
    for select in selects[1:]:
        tree = exp.Union(this=tree, expression=select, distinct=False)
    return tree, columns
