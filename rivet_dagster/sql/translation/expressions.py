"""Expressions: the type of each, by what is proven on an engine, and their trees there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from rivet_dagster.sql.columns.type_names import type_name
from rivet_dagster.sql.parsing.nodes import names_of
from rivet_dagster.sql.translation.aggregates import RANKING, aggregate, window
from rivet_dagster.sql.translation.item_names import shown
from rivet_dagster.sql.translation.literals import instant
from rivet_dagster.sql.translation.model import Named, NotProven, TypedExpression, TypeUnknown
from rivet_dagster.sql.translation.proven import AGGREGATE, SCALAR, WINDOW, Applied, Argument, Support
from rivet_dagster.sql.translation.scope import SelectScope
from rivet_dagster.sql.translation.spark_types import (
    CLASSES,
    INTEGERS,
    VOID,
    as_decimal,
    decimal,
    element,
    wider,
    widest,
)
from rivet_dagster.sql.translation.templates import atom, call, cast, render, same

OfQuery = Callable[[exp.Expr, SelectScope], tuple[exp.Expr, Sequence[Named] | None]]
"""Translates a query within an expression."""

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div", exp.EQ: "=",
    exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>", exp.And: "and",
    exp.Or: "or", exp.DPipe: "||", exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^",
}  # fmt: skip
_PATTERNS: dict[type[exp.Expr], str] = {exp.Like: "like", exp.ILike: "ilike", exp.RegexpLike: "rlike"}
_DECIMAL_ARITHMETIC = frozenset("+ - * / %".split())
_BY_WIDEST = frozenset("coalesce greatest least array nullif pmod".split())
"""Functions whose arguments are cast to one type, of a literal as of any other value."""
_FIELDS = frozenset("year quarter month week day dow doy hour minute second".split())


class Expressions:
    """Translates the expressions of one query to one engine; ``of_query`` those queries that are within them."""

    def __init__(
        self, support: Support, of_query: OfQuery, new_name: Callable[[], str], parameters: Mapping[str, str | None]
    ) -> None:
        self.support = support
        self.parameters = parameters
        self.new_name = new_name
        self._of_query = of_query

    def translate(self, node: exp.Expr, scope: SelectScope) -> TypedExpression:
        """Return an expression with its type. Raise NotProven."""
        try:
            return self._translate(node, scope)
        except NotProven as refused:
            refused.node = refused.node or node
            raise

    def known(self, node: exp.Expr, scope: SelectScope) -> TypedExpression:
        """Return an expression whose type is known. Raise NotProven."""
        typed = self.translate(node, scope)
        if typed.type is None:
            raise TypeUnknown(f"{shown(node)}, whose type is not known", node)
        return typed

    def condition(self, node: exp.Expr, scope: SelectScope) -> exp.Expr:
        """Return a condition."""
        typed = self.known(node, scope)
        if typed.type not in ("boolean", VOID):
            raise NotProven(f"a condition of the type {typed.type}", node)
        return typed.tree if typed.type == "boolean" else self.cast(typed, "boolean", node).tree

    def cast(self, typed: TypedExpression, to: str, node: exp.Expr, word: str = "cast") -> TypedExpression:
        """Return a value as another type of Spark. Raise NotProven."""
        kind = typed.type
        if kind == to:
            return typed
        if kind == VOID:
            return TypedExpression(cast(typed.tree.copy(), to, self.support.dialect), to)
        target, inner = decimal(to), element(to)
        own = decimal(kind)
        if word == "cast" and target is not None and (exact := as_decimal(str(kind))) is not None:
            wide = target[0] - target[1] >= exact[0] - exact[1] and target[1] >= exact[1]
            if wide and (own is None or self.support.knows(SCALAR, "cast-wider")):
                return TypedExpression(cast(typed.tree.copy(), to, self.support.dialect), to)
        if inner is not None and kind is not None and element(kind) == VOID:
            return TypedExpression(cast(typed.tree.copy(), to, self.support.dialect), to)
        name = f"{word}-{'decimal' if target else to}"
        applied = self.support.find(SCALAR, name, [Argument(str(kind), typed.value)])
        if applied is None:
            raise NotProven(f"CAST of {kind} to {to}", node)
        applied = Applied(to, applied.template, applied.literals)
        value = typed.value if isinstance(typed.value, int) and to in INTEGERS else None
        return TypedExpression(render(name, applied, [typed], self.support), to, value)

    def _translate(self, node: exp.Expr, scope: SelectScope) -> TypedExpression:
        kind = type(node)
        if kind in _BINARY:
            return self._binary(node, scope)
        if kind in _PATTERNS:
            return self._pattern(node, scope)
        method = getattr(self, f"_{kind.__name__.lower()}", None)
        if method is None:
            raise NotProven(shown(node), node)
        typed: TypedExpression = method(node, scope)
        return typed

    # names and literals

    def _column(self, node: exp.Column, scope: SelectScope) -> TypedExpression:
        if isinstance(node.this, exp.Star):
            raise NotProven("*", node)
        return self._named(names_of(node), node, scope)

    def _identifier(self, node: exp.Identifier, scope: SelectScope) -> TypedExpression:
        return self._named([node.name], node, scope)

    def _named(self, parts: Sequence[str], node: exp.Expr, scope: SelectScope) -> TypedExpression:
        try:
            column = scope.resolve(parts)
        except NotProven as refused:
            refused.node = node
            raise
        if column.refused:
            raise NotProven()
        return TypedExpression(column.tree.copy(), column.type)

    def _literal(self, node: exp.Literal, scope: SelectScope) -> TypedExpression:
        return (
            self._number(node.name, node) if not node.is_string else TypedExpression(node.copy(), "string", node.name)
        )

    def _rawstring(self, node: exp.RawString, scope: SelectScope) -> TypedExpression:
        return TypedExpression(exp.Literal.string(node.name), "string", node.name)

    def _concat(self, node: exp.Concat, scope: SelectScope) -> TypedExpression:
        if not all(isinstance(part, exp.Literal) and part.is_string for part in node.expressions):
            raise NotProven("concat", node)
        text = "".join(part.name for part in node.expressions)
        return TypedExpression(exp.Literal.string(text), "string", text)

    def _number(self, text: str, node: exp.Expr, sign: str = "") -> TypedExpression:
        if text.isdigit():
            value = int(sign + text)
            if not -(2**63) <= value < 2**63:
                raise NotProven(f"the number {text}", node)
            kind = "int" if -(2**31) <= value < 2**31 else "bigint"
            tree: exp.Expr = exp.Literal.number(sign + text)
            # DuckDB gives a number the type of what stands beside it, and Sail reads the sign by itself.
            if self.support.dialect == "duckdb" or value in (-(2**31), -(2**63)):
                tree = cast(tree, kind, self.support.dialect)
            return TypedExpression(tree, kind, value)
        if "e" in text.lower():
            written = exp.Literal.string(sign + text) if self.support.dialect == "duckdb" else exp.Literal.number(text)
            tree = cast(written, "double", self.support.dialect)
            return TypedExpression(exp.Neg(this=tree) if sign and self.support.dialect != "duckdb" else tree, "double")
        whole, _, fraction = text.partition(".")
        if not (whole + fraction).isdigit():
            raise NotProven(f"the number {text}", node)
        digits = len(whole.lstrip("0")) + len(fraction)
        kind = f"decimal({max(digits, len(fraction), 1)},{len(fraction)})"
        return TypedExpression(cast(exp.Literal.number(sign + text), kind, self.support.dialect), kind)

    def _placeholder(self, node: exp.Placeholder, scope: SelectScope) -> TypedExpression:
        kind = self.parameters.get(node.name)
        if kind is None:
            raise TypeUnknown(f"the parameter :{node.name}, whose type is not known", node)
        return TypedExpression(exp.Placeholder(this=node.name), kind)

    def _null(self, node: exp.Null, scope: SelectScope) -> TypedExpression:
        return TypedExpression(exp.Null(), VOID)

    def _boolean(self, node: exp.Boolean, scope: SelectScope) -> TypedExpression:
        return TypedExpression(exp.Boolean(this=node.this), "boolean")

    def _paren(self, node: exp.Paren, scope: SelectScope) -> TypedExpression:
        return self.translate(node.this, scope)

    # operators

    def _neg(self, node: exp.Neg, scope: SelectScope) -> TypedExpression:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return self._number(node.this.name, node, "-")
        return self.apply("negative", [self.known(node.this, scope)], node)

    def _binary(self, node: exp.Expr, scope: SelectScope) -> TypedExpression:
        name = _BINARY[type(node)]
        right = node.args["expression"]
        if isinstance(right, exp.Interval):
            return self.apply(name, [self.known(node.this, scope), self._interval(right)], node)
        if {type(node.this), type(right)} & {exp.Tuple, exp.Any, exp.All}:
            raise NotProven(shown(node), node)
        one, other = self.known(node.this, scope), self.known(right, scope)
        if name in ("and", "or"):
            one, other = (self.cast(each, "boolean", node) if each.type == VOID else each for each in (one, other))
            return self.apply(name, [one, other], node)
        return self.apply(name, self._coerced(name, one, other, node), node)

    def _coerced(
        self, name: str, one: TypedExpression, other: TypedExpression, node: exp.Expr
    ) -> list[TypedExpression]:
        one, other = _date_of(one, other, self), _date_of(other, one, self)
        kinds = str(one.type), str(other.type)
        if kinds == (VOID, VOID):
            return [self.cast(each, "int", node) for each in (one, other)]
        if kinds[0] == kinds[1] or {"date", "string"} & set(kinds):
            both = kinds[0] if VOID in kinds[1:] else kinds[1]
            return [self.cast(each, both, node) if each.type == VOID else each for each in (one, other)]
        if name in _DECIMAL_ARITHMETIC and any(map(decimal, kinds)) and "double" not in kinds and VOID not in kinds:
            return [self._as_decimal(each, node) for each in (one, other)]
        common = wider(*kinds)
        if common is None:
            raise NotProven(f"{name} of {kinds[0]} and {kinds[1]}", node)
        return [self.cast(each, common, node) for each in (one, other)]

    def _as_decimal(self, typed: TypedExpression, node: exp.Expr) -> TypedExpression:
        if isinstance(typed.value, int):
            return self.cast(typed, f"decimal({len(str(abs(typed.value)))},0)", node)
        exact = as_decimal(str(typed.type))
        if exact is None:
            raise NotProven(f"decimal arithmetic with {typed.type}", node)
        return self.cast(typed, f"decimal({exact[0]},{exact[1]})", node)

    def _interval(self, node: exp.Interval) -> TypedExpression:
        unit = node.args.get("unit")
        word = unit.name.lower().rstrip("s") if isinstance(unit, exp.Var) else ""
        amount = node.this
        factor = {"day": 1, "week": 7, "month": 1, "year": 12}.get(word)
        if factor is None or not isinstance(amount, exp.Literal) or not amount.name.lstrip("-").isdigit():
            raise NotProven("INTERVAL other than whole days, weeks, months and years", node)
        value = int(amount.name) * factor
        return TypedExpression(
            exp.Literal.number(value), "interval_days" if word in ("day", "week") else "interval_months", value
        )

    def _not(self, node: exp.Not, scope: SelectScope) -> TypedExpression:
        if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
            return self._is_null("is_not_null", node.this.this, scope)
        typed = self.known(node.this, scope)
        return self.apply("not", [self.cast(typed, "boolean", node) if typed.type == VOID else typed], node)

    def _is(self, node: exp.Is, scope: SelectScope) -> TypedExpression:
        if isinstance(node.expression, exp.Null):
            return self._is_null("is_null", node.this, scope)
        if isinstance(node.expression, exp.Boolean):
            name = "is_true" if node.expression.this else "is_false"
            return self.apply(name, [self.known(node.this, scope)], node)
        raise NotProven(shown(node), node)

    def _is_null(self, name: str, inner: exp.Expr, scope: SelectScope) -> TypedExpression:
        return TypedExpression(
            same(name, [self.translate(inner, scope).tree], "boolean", self.support.dialect), "boolean"
        )

    def _nullsafeneq(self, node: exp.NullSafeNEQ, scope: SelectScope) -> TypedExpression:
        equal = self._compared("<=>", self.known(node.this, scope), self.known(node.expression, scope), node)
        return self.apply("not", [equal], node)

    def _compared(self, name: str, one: TypedExpression, other: TypedExpression, node: exp.Expr) -> TypedExpression:
        return self.apply(name, self._coerced(name, one, other, node), node)

    def _between(self, node: exp.Between, scope: SelectScope) -> TypedExpression:
        value = self.known(node.this, scope)
        low = self._compared(">=", value, self.known(node.args["low"], scope), node)
        high = self._compared("<=", value, self.known(node.args["high"], scope), node)
        return self.apply("and", [low, high], node)

    def _in(self, node: exp.In, scope: SelectScope) -> TypedExpression:
        value = self.known(node.this, scope)
        if node.args.get("query") is not None:
            query, columns = self._of_query(node.args["query"].this, scope)
            if columns is None or (len(columns) == 1 and columns[0].type is None):
                raise TypeUnknown("IN a query whose column is not known", node)
            kind = columns[0].type if len(columns) == 1 else None
            if kind is None or kind != value.type:
                raise NotProven(f"{value.type} IN a query of {kind}", node)
            self.apply("=", [value, value], node)
            return TypedExpression(exp.In(this=atom(value.tree), query=exp.Subquery(this=query)), "boolean")
        if not node.expressions:
            raise NotProven("IN", node)
        items = [_date_of(self.known(item, scope), value, self) for item in node.expressions]
        both = widest([str(value.type), *[str(item.type) for item in items]])
        if both is None or both == VOID:
            raise NotProven(f"IN over {', '.join(sorted({str(i.type) for i in [value, *items]}))}", node)
        value = self.cast(value, both, node)
        self.apply("=", [value, value], node)
        trees = [self.cast(item, both, node).tree for item in items]
        return TypedExpression(exp.In(this=atom(value.tree), expressions=trees), "boolean")

    def _pattern(self, node: exp.Expr, scope: SelectScope) -> TypedExpression:
        name = _PATTERNS[type(node)]
        arguments = [self.known(node.this, scope), self.known(node.args["expression"], scope)]
        found = self.apply(name, arguments, node)
        return self.apply("not", [found], node) if node.args.get("negate") else found

    def _case(self, node: exp.Case, scope: SelectScope) -> TypedExpression:
        subject = self.known(node.this, scope) if node.this is not None else None
        conditions = []
        for branch in node.args["ifs"]:
            if subject is None:
                conditions.append(self.condition(branch.this, scope))
            else:
                conditions.append(self._compared("=", subject, self.known(branch.this, scope), node).tree)
        values = [self.known(branch.args["true"], scope) for branch in node.args["ifs"]]
        default = node.args.get("default")
        values.append(self.known(default, scope) if default is not None else TypedExpression(exp.Null(), VOID))
        return self._choice(conditions, values, node)

    def _choice(
        self, conditions: Sequence[exp.Expr], values: Sequence[TypedExpression], node: exp.Expr
    ) -> TypedExpression:
        both = widest([str(value.type) for value in values])
        if both is None:
            raise NotProven(f"CASE of {' and '.join(dict.fromkeys(str(v.type) for v in values))}", node)
        trees = [value.tree if both == VOID else self.cast(value, both, node).tree for value in values]
        ifs = [exp.If(this=c.copy(), true=v.copy()) for c, v in zip(conditions, trees, strict=False)]
        return TypedExpression(exp.Case(ifs=ifs, default=trees[-1].copy()), both)

    def _cast(self, node: exp.Cast, scope: SelectScope) -> TypedExpression:
        return self._to_type(node, scope, "cast")

    def _trycast(self, node: exp.TryCast, scope: SelectScope) -> TypedExpression:
        return self._to_type(node, scope, "try_cast")

    def _to_type(self, node: exp.Expr, scope: SelectScope, word: str) -> TypedExpression:
        to = type_name(node.args["to"])
        if node.args.get("format") or to is None:
            raise NotProven(f"CAST to {node.args['to'].sql()}", node)
        micros = instant(node.this.name) if to == "timestamp" and isinstance(node.this, exp.Literal) else None
        if micros is not None:
            made_of = "make_timestamptz" if self.support.dialect == "duckdb" else "timestamp_micros"
            return TypedExpression(call(made_of, cast(exp.Literal.number(micros), "bigint", self.support.dialect)), to)
        typed = self.known(node.this, scope)
        made = self.cast(typed, to, node, word)
        return TypedExpression(made.tree, to, typed.value if typed.type == to or to in INTEGERS else None)

    def _bracket(self, node: exp.Bracket, scope: SelectScope) -> TypedExpression:
        if len(node.expressions) != 1:
            raise NotProven(shown(node), node)
        return self.apply("[]", [self.known(node.this, scope), self.known(node.expressions[0], scope)], node)

    def _extract(self, node: exp.Extract, scope: SelectScope) -> TypedExpression:
        name = node.this.name.lower()
        if name not in _FIELDS:
            raise NotProven(f"EXTRACT({name.upper()})", node)
        name = {"day": "dayofmonth", "dow": "dayofweek", "doy": "dayofyear", "week": "weekofyear"}.get(name, name)
        return self.apply(name, [self.known(node.expression, scope)], node)

    def _timestampdiff(self, node: exp.TimestampDiff, scope: SelectScope) -> TypedExpression:
        start, end = self.known(node.expression, scope), self.known(node.this, scope)
        return self.apply(f"timestampdiff_{node.args['unit'].name.lower()}", [start, end], node)

    # queries within expressions

    def _subquery(self, node: exp.Subquery, scope: SelectScope) -> TypedExpression:
        query, columns = self._of_query(node.this, scope)
        if columns is None or len(columns) != 1:
            raise NotProven("a query of several columns as a value", node)
        if columns[0].refused:
            raise NotProven()
        return TypedExpression(exp.Subquery(this=query), columns[0].type)

    def _exists(self, node: exp.Exists, scope: SelectScope) -> TypedExpression:
        return TypedExpression(exp.Exists(this=self._of_query(node.this, scope)[0]), "boolean")

    # functions

    def _anonymous(self, node: exp.Anonymous, scope: SelectScope) -> TypedExpression:
        name = self.support.names.get(node.name.lower(), node.name.lower())
        if name in RANKING or self.support.knows(AGGREGATE, name) or self.support.knows(WINDOW, name):
            return aggregate(self, node, scope)
        if name in ("if", "nvl2") and len(node.expressions) == 3:
            first, *values = node.expressions
            if name == "if":
                condition = self.condition(first, scope)
            else:
                condition = self._is_null("is_not_null", first, scope).tree
            return self._choice([condition], [self.known(value, scope) for value in values], node)
        if not self.support.knows(SCALAR, name):
            raise NotProven(f"{node.name.lower()}()", node)
        if name in ("is_null", "is_not_null") and len(node.expressions) == 1:
            return self._is_null(name, node.expressions[0], scope)
        arguments: list[TypedExpression] = []
        for item in node.expressions:
            arguments.append(
                self._lambda_of(item, arguments, scope) if isinstance(item, exp.Lambda) else self.known(item, scope)
            )
        return self.apply(name, arguments, node)

    def _lambda_of(self, node: exp.Lambda, before: Sequence[TypedExpression], scope: SelectScope) -> TypedExpression:
        inner = element(str(before[0].type)) if before else None
        kinds = [inner] if len(before) == 1 else [before[1].type, inner]
        if inner is None or len(kinds) != len(node.expressions):
            raise NotProven("a lambda of several parameters", node)
        names = [self.new_name().replace("rivet ", "x") for _ in kinds]
        parameters = [
            Named(given.name, kind, exp.Column(this=exp.to_identifier(name)))
            for given, kind, name in zip(node.expressions, kinds, names, strict=True)
        ]
        body = self.known(node.this, scope.within(parameters))
        if len(before) == 2 and body.type != before[1].type:
            raise NotProven(f"a lambda that returns {body.type} for {before[1].type}", node)
        tree = exp.Lambda(this=body.tree, expressions=[exp.to_identifier(name) for name in names])
        return TypedExpression(tree, f"lambda<{body.type}>")

    def apply(
        self, name: str, arguments: Sequence[TypedExpression], node: exp.Expr, section: str = SCALAR
    ) -> TypedExpression:
        """Return a listed construct over ``arguments``, cast as Spark casts them. Raise NotProven."""
        for candidate in self._candidates(name, arguments, node):
            applied = self.support.find(section, name, [Argument(str(a.type), a.value) for a in candidate])
            if applied is not None:
                return TypedExpression(render(name, applied, candidate, self.support), applied.result)
        kinds = ", ".join(str(a.type) for a in arguments)
        where = "" if self.support.knows(section, name) else ", which is not listed"
        raise NotProven(f"{name}({kinds}){where}", node)

    def _candidates(
        self, name: str, arguments: Sequence[TypedExpression], node: exp.Expr
    ) -> list[Sequence[TypedExpression]]:
        both = (
            widest([str(a.type) for a in arguments])
            if name in _BY_WIDEST or VOID in [a.type for a in arguments]
            else None
        )
        found: list[Sequence[TypedExpression]] = []
        if both not in (None, VOID) and len({a.type for a in arguments}) > 1:
            found.append([self.cast(a, str(both), node) for a in arguments])
        found.append(arguments)
        if any(a.type in INTEGERS for a in arguments):
            found.append([self._as_double(a, node) for a in arguments])
        return found

    def _as_double(self, typed: TypedExpression, node: exp.Expr) -> TypedExpression:
        return self.cast(typed, "double", node) if typed.type in INTEGERS else typed

    def _filter(self, node: exp.Filter, scope: SelectScope) -> TypedExpression:
        return aggregate(self, node, scope)

    def _window(self, node: exp.Window, scope: SelectScope) -> TypedExpression:
        return window(self, node, scope)

    # keys

    def ordered(self, node: exp.Expr, scope: SelectScope, tree: exp.Expr | None = None) -> exp.Ordered:
        """Return one item of an ORDER BY, or of an ordinal ``tree`` for it, with its place for NULL written out."""
        if not isinstance(node, exp.Ordered) or node.args.get("with_fill"):
            raise NotProven("ORDER BY", node)
        if tree is None:
            typed = self.known(node.this, scope)
            if typed.type not in _ORDERED and decimal(typed.type) is None:
                raise NotProven(f"ORDER BY a value of the type {typed.type}", node)
            tree = typed.tree
        # The generator leaves out what is the default of the engine, so both words are always those of Spark.
        return exp.Ordered(
            this=tree.copy(), desc=bool(node.args.get("desc")), nulls_first=bool(node.args["nulls_first"])
        )

    def key(self, typed: TypedExpression, clause: str, node: exp.Expr) -> None:
        """Refuse a type whose equal values are not one value, such as 0.0 and -0.0."""
        if typed.type is None:
            raise TypeUnknown(f"{clause} of a column whose type is not known", node)
        if typed.type not in CLASSES["K"] and decimal(typed.type) is None and typed.type != VOID:
            raise NotProven(f"{clause} of a value of the type {typed.type}", node)


_ORDERED = frozenset(CLASSES["O"])


def _date_of(typed: TypedExpression, other: TypedExpression, expressions: Expressions) -> TypedExpression:
    """Return a text that is compared with a date as a date, as Spark casts it."""
    if other.type == "date" and typed.type == "string" and isinstance(typed.value, str):
        text = typed.value
        if len(text) == 10 and text[4] == text[7] == "-" and (text[:4] + text[5:7] + text[8:]).isdigit():
            return TypedExpression(cast(exp.Literal.string(text), "date", expressions.support.dialect), "date")
    return typed
