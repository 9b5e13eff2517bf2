"""What may raise for a row, by the name of an operator or a function alone, and with which of Spark's conditions.

Spark's own ``TryEval`` tells whether a row raises; this says where to look, and how to name what is found.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.parsing.known_query import NON_DETERMINISTIC
from rivet_dagster.sql.row_errors.aggregates import Aggregate, aggregate, is_aggregate
from rivet_dagster.sql.row_errors.function_calls import call_of, is_artificial
from rivet_dagster.sql.row_errors.function_sites import function_site, infallible
from rivet_dagster.sql.row_errors.implicit_casts import CAST_INVALID_INPUT, casts_a_string, is_string
from rivet_dagster.sql.row_errors.operator_sites import arithmetic, cast, negation, symbol_of, type_named
from rivet_dagster.sql.row_errors.site import UNNAMED, Site, Unclassified, both, fill, raises, type_of, value_text

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_BITWISE = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_NEVER = (
    exp.Alias, exp.All, exp.BitwiseNot, exp.Boolean, exp.Collate, exp.Column, exp.DataType, exp.DataTypeParam,
    exp.Distinct, exp.Dot, exp.Filter, exp.HexString, exp.Identifier, exp.IgnoreNulls, exp.Interval, exp.JSONExtract,
    exp.JSONPath, exp.JSONPathPart, exp.Kwarg, exp.Lambda, exp.Literal, exp.Null, exp.Order, exp.Ordered, exp.Parameter,
    exp.Paren, exp.Placeholder, exp.PropertyEQ, exp.Query, exp.RawString, exp.RespectNulls, exp.Star, exp.TimeStrToTime,
    exp.TryCast, exp.Tuple, exp.Var, exp.Where, exp.Window, exp.WindowSpec, exp.WithinGroup,
)  # fmt: skip

_NOT_COMPARED = " cannot be compared."
_NOT_ONE_TYPE = " cannot be cast to one type."


def site_of(node: exp.Expr) -> Site | Aggregate | Unclassified | None:
    """Return the site of a node; None if it never raises itself, Unclassified if that is not known.

    The operands of a node are nodes of their own: its site says only what it adds to them. What a lambda raises is a
    part of the site of the function that calls it. Subqueries, and the frames of windows, are not looked into.

    >>> from rivet_dagster.sql.parsing.dialect import parse_expression
    >>> site_of(parse_expression("upper(name)"))
    >>> site_of(parse_expression("price < 9")).guard
    "typeof({0}) LIKE '%string%'"
    >>> site_of(parse_expression("my_function(price)"))
    Unclassified(construct='my_function')
    """
    return None if node.find_ancestor(exp.Lambda) else _site(node)


def _site(node: exp.Expr) -> Site | Aggregate | Unclassified | None:
    if is_artificial(node) or _is_subquery(node):
        return None
    symbol = symbol_of(node)
    if symbol is not None:
        return arithmetic(node.this, node.args["expression"], symbol)
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast) and not node.args.get("safe"):
        return cast(node.this, node.to)
    if isinstance(node, exp.Neg):
        return None if isinstance(node.this, exp.Literal) else negation(node.this, "negative")
    if isinstance(node, _COMPARISONS):
        return _compared(node.this, node.args["expression"])
    if isinstance(node, _BITWISE):
        return _of_one_type((node.this, node.args["expression"]), "bitwise", _NOT_ONE_TYPE)
    if isinstance(node, exp.Between):
        return _of_one_type((node.this, node.args["low"], node.args["high"]), "comparison", _NOT_COMPARED)
    if isinstance(node, exp.In):
        return _compared(node.this, *node.expressions)
    if isinstance(node, exp.Is | exp.And | exp.Or | exp.Not):
        return _boolean(node)
    if isinstance(node, exp.Case | exp.If | exp.Coalesce | exp.Nullif | exp.Nvl2 | exp.Array):
        return _branches(node)
    if isinstance(node, exp.Bracket):
        return _element(node)
    return None if isinstance(node, _NEVER) else _call(node)


def _is_subquery(node: exp.Expr) -> bool:
    """Return whether a node is a condition on the rows of a subquery."""
    return isinstance(node, exp.Exists | exp.Any) and isinstance(node.this, exp.Query)


def _compared(left: exp.Expr, *others: exp.Expr) -> Site | None:
    """Return the site of a comparison; the fields of tuples are never cast."""
    return None if isinstance(left, exp.Tuple) else _of_one_type((left, *others), "comparison", _NOT_COMPARED)


def _of_one_type(operands: Sequence[exp.Expr], kind: str, problem: str) -> Site | None:
    guard = casts_a_string(operands)
    if guard is None:
        return None
    values = ", ', ', ".join(f"{value_text(i)}, ' of the type ', {type_of(i)}" for i in range(min(len(operands), 3)))
    return Site(kind, tuple(operands), f"'{CAST_INVALID_INPUT}'", f"concat({values}, '{problem}')", guard)


def _boolean(node: exp.Expr) -> Site | None:
    """Return the site of AND, OR, NOT, and of IS TRUE: strings are cast to BOOLEAN."""
    if isinstance(node, exp.Is) and not isinstance(node.args["expression"], exp.Boolean):
        return None
    operands = [node.this, *([node.args["expression"]] if isinstance(node, exp.And | exp.Or) else [])]
    known = (exp.Predicate, exp.Not, exp.Connector, exp.Boolean, exp.Null)
    unknown = [operand for operand in operands if not isinstance(operand.unnest(), known)]
    if not unknown:
        return None
    guard = " OR ".join(is_string(i) for i in range(len(unknown)))
    values = ", ', ', ".join(value_text(i) for i in range(len(unknown)))
    message = f"concat({values}, ' cannot be cast to BOOLEAN.')"
    return Site("boolean", tuple(unknown), f"'{CAST_INVALID_INPUT}'", message, guard)


def _branches(node: exp.Expr) -> Site | None:
    """Return the site of a node that gives one of several values, or collects them: all are cast to one type."""
    if isinstance(node, exp.Case):
        results = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        site = _of_one_type([*results, *([default] if default is not None else [])], "branches", _NOT_ONE_TYPE)
        if node.this is None:
            return site
        # Spark compares the value with one WHEN after another, each by their two types.
        for branch in node.args["ifs"]:
            site = both(site, _compared(node.this, branch.this))
        return site
    if isinstance(node, exp.If | exp.Nvl2):
        if isinstance(node.parent, exp.Case):
            return None  # a WHEN, which belongs to its CASE
        branches = [node.args["true"], *([node.args["false"]] if node.args.get("false") is not None else [])]
        return _of_one_type(branches, "branches", _NOT_ONE_TYPE)
    if isinstance(node, exp.Nullif):
        return _compared(node.this, node.args["expression"])
    return _of_one_type(
        [node.this, *node.expressions] if node.args.get("this") else node.expressions, "branches", _NOT_ONE_TYPE
    )


def _element(node: exp.Bracket) -> Site | Unclassified | None:
    """Return the site of ``a[b]``, and of ``element_at``, which sqlglot parses as the same node."""
    if len(node.expressions) != 1:
        return Unclassified("[]")
    operands = (node.this, node.expressions[0])
    name = ("try_element_at" if node.args.get("safe") else "element_at") if node.args.get("offset") == 1 else "[]"
    return function_site(name, operands)


def _call(node: exp.Expr) -> Site | Aggregate | Unclassified | None:
    call = call_of(node)
    if call is None:
        return Unclassified(node.sql_name().lower() if isinstance(node, exp.Func) else node.key)
    name, operands = call
    if any(isinstance(operand, exp.Kwarg) for operand in operands):
        return _of_named_arguments(name, operands)
    if is_aggregate(name):
        return aggregate(name, operands)
    if name in NON_DETERMINISTIC and not (name == "unix_timestamp" and operands):
        return Unclassified(name)
    to = type_named(name)
    if to is not None:
        return cast(operands[0], to) if len(operands) == 1 else None  # Spark refuses a call with another number
    if name == "equal_null" and len(operands) == 2:
        return _compared(*operands)
    site = function_site(name, operands)
    lambdas = [operand for operand in operands if isinstance(operand, exp.Lambda)]
    if isinstance(site, Unclassified):
        return site
    if lambdas:
        return _higher_order(name, operands, lambdas, site)
    if name == "map":
        keys, values = (_of_one_type(operands[i::2], "branches", _NOT_ONE_TYPE) for i in (0, 1))
        return both(both(keys, values), site)
    if name == "decode" and len(operands) > 2:
        return _decode(operands)
    return site


def _of_named_arguments(name: str, operands: Sequence[exp.Expr]) -> Unclassified | None:
    """Return None for a call with named arguments that never raises: which parameters they are is not looked at."""
    is_harmless = name in infallible() or name in NON_DETERMINISTIC
    return None if is_harmless and not is_aggregate(name) else Unclassified(f"{name} with named arguments")


def _decode(operands: Sequence[exp.Expr]) -> Site | None:
    """Return the site of ``decode(value, search, result, ..., default)``, a CASE in other words."""
    results = [operands[i] for i in range(2, len(operands)) if i % 2 == 0 or i == len(operands) - 1]
    site = _of_one_type(results, "branches", _NOT_ONE_TYPE)
    for i in range(1, len(operands) - 1, 2):
        site = both(site, _compared(operands[0], operands[i]))
    return site


def _higher_order(
    name: str, operands: Sequence[exp.Expr], lambdas: Sequence[exp.Lambda], site_of_call: Site | None
) -> Site | Unclassified | None:
    """Return the site of a function that calls lambdas: what they raise for an element, it raises for the row."""
    inner: list[tuple[exp.Expr, Site]] = []
    for node in reversed([node for body in lambdas for node in _nodes(body.this)]):
        site = _site(node)
        if isinstance(site, Unclassified | Aggregate):
            return site if isinstance(site, Unclassified) else Unclassified(site.name)
        if site is not None:
            inner.append((node, site))
    if not inner:
        return site_of_call
    values = tuple(operand for operand in operands if not isinstance(operand, exp.Lambda))
    conditions = {site.condition for _, site in inner}
    condition = f"'{UNNAMED}'"
    if len(conditions) == 1 and "{" not in (only := conditions.pop()):
        condition = only
    elif name in _OF_ELEMENTS and len(lambdas) == 1:
        condition = _of_first_element(_OF_ELEMENTS[name], lambdas[0], inner)
    elif name in _ACCUMULATING:
        condition = f"coalesce({_of_accumulation(lambdas)}, {condition})"
    if site_of_call is not None:
        condition = (
            f"coalesce({condition}, {site_of_call.condition})" if name in _OF_ELEMENTS else site_of_call.condition
        )
    message = f"concat('{name}(', {', '.join(value_text(i) for i in range(len(values)))}, ') cannot be computed.')"
    return Site(name, values, condition, message)


_OF_ELEMENTS = {
    **dict.fromkeys(("transform", "filter", "exists", "forall"), "transform({0}, LAMBDA)"),
    "zip_with": "zip_with({0}, {1}, LAMBDA)",
    **dict.fromkeys(("transform_values", "transform_keys", "map_filter"), "map_values(transform_values({0}, LAMBDA))"),
    "map_zip_with": "map_values(map_zip_with({0}, {1}, LAMBDA))",
}
"""Templates of the array of a lambda's values, for functions that call it once for each element by itself."""


_ACCUMULATING = frozenset({"aggregate", "reduce"})


def _of_accumulation(lambdas: Sequence[exp.Lambda]) -> str:
    """Return the template of the condition of the first step of ``aggregate`` that raises.

    Beside the value that is accumulated it keeps the condition, and stays as it is once there is one.
    """
    merge = lambdas[0]
    state, element = (parameter.name for parameter in merge.expressions)
    value = _with_value(merge.this, state)
    failure = f"named_struct('value', {state}.value, 'condition', {_first_condition(value)})"
    next_one = f"named_struct('value', {value.sql(dialect=SPARK)}, 'condition', CAST(NULL AS STRING))"
    step = f"CASE WHEN {state}.condition IS NOT NULL THEN {state} WHEN {raises(value.sql(dialect=SPARK))}"
    text = f"({state}, {element}) -> {step} THEN {failure} ELSE {next_one} END"
    finish = f"{state} -> {state}.condition"
    if len(lambdas) > 1:
        state = lambdas[1].expressions[0].name
        finish = f"{state} -> coalesce({state}.condition, {_first_condition(_with_value(lambdas[1].this, state))})"
    initial = "named_struct('value', {1}, 'condition', CAST(NULL AS STRING))"
    steps = f"{text}, {finish}".replace("{", "{{").replace("}", "}}")
    return f"aggregate({{0}}, {initial}, {steps})"


def _with_value(body: exp.Expr, state: str) -> exp.Expr:
    """Return the body of a lambda in which ``state`` is the field ``value`` of the parameter of that name."""

    def replaced(node: exp.Expr) -> exp.Expr:
        is_state = isinstance(node, exp.Column | exp.Identifier) and node.name == state and not node.args.get("table")
        return exp.column("value", table=state) if is_state and not isinstance(node.parent, exp.Column) else node

    return body.copy().transform(replaced)


def _first_condition(body: exp.Expr) -> str:
    """Return an expression of the condition of the first node of a lambda's body that raises; NULL if none does."""
    nodes = ((node, _site(node)) for node in reversed(_nodes(body)))
    cases = _cases([(node, site) for node, site in nodes if isinstance(site, Site)])
    return f"CASE {cases} ELSE CAST(NULL AS STRING) END" if cases else "CAST(NULL AS STRING)"


def _nodes(body: exp.Expr) -> list[exp.Expr]:
    """Return the nodes of a lambda's body; what is in the lambdas of another call is a matter of that call."""
    return list(body.walk(prune=lambda node: isinstance(node, exp.Lambda)))


def _cases(inner: Sequence[tuple[exp.Expr, Site]]) -> str:
    cases = []
    for node, site in inner:
        texts = [operand.sql(dialect=SPARK) for operand in site.operands]
        guard = f" AND ({fill(site.guard, texts)})" if site.guard else ""
        cases.append(f"WHEN {raises(node.sql(dialect=SPARK))}{guard} THEN {fill(site.condition, texts)}")
    return " ".join(cases)


def _of_first_element(template: str, function: exp.Lambda, inner: Sequence[tuple[exp.Expr, Site]]) -> str:
    """Return the template of the condition of the first element for which the lambda raises."""
    parameters = ", ".join(parameter.sql(dialect=SPARK) for parameter in function.expressions)
    parameters = f"({parameters})" if len(function.expressions) > 1 else parameters
    text = f"{parameters} -> CASE {_cases(inner)} END".replace("{", "{{").replace("}", "}}")
    return f"element_at(array_compact({template.replace('LAMBDA', text)}), 1)"
