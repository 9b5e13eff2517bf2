"""Stub."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp


class UnclassifiedError(Exception):
    def __init__(self, construct: str) -> None:
        super().__init__(construct)
        self.construct = construct


@dataclass(frozen=True)
class Site:
    kind: str
    operands: tuple[exp.Expr, ...]
    condition: str
    message: str
    guard: str = ""


def site_of(node: exp.Expr) -> Site | None:
    if isinstance(node, exp.TryCast) or (isinstance(node, exp.Cast) and node.args.get("safe")):
        return None
    if isinstance(node, exp.Cast):
        if node.to.is_type("text") or node.to.is_type("varchar"):
            return None
        return Site("cast", (node.this,), "'CAST_INVALID_INPUT'", "concat('The value ', {0}, ' cannot be cast')")
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
        return Site(
            "arith",
            (node.this, node.expression),
            "'ARITHMETIC_OVERFLOW'",
            "'overflow'",
            "typeof({0}) NOT IN ('double','float') AND typeof({1}) NOT IN ('double','float')",
        )
    if isinstance(node, (exp.Div, exp.IntDiv, exp.Mod)):
        return Site(
            "div",
            (node.this, node.expression),
            "CASE WHEN {1} = 0 THEN 'DIVIDE_BY_ZERO' ELSE 'ARITHMETIC_OVERFLOW' END",
            "'division by zero'",
        )
    if isinstance(node, (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)):
        return Site(
            "compare",
            (node.this, node.expression),
            "'CAST_INVALID_INPUT'",
            "'implicit cast'",
            "(typeof({0}) LIKE 'string%') <> (typeof({1}) LIKE 'string%')",
        )
    if isinstance(node, exp.Anonymous) and node.name.lower() == "my_udf":
        raise UnclassifiedError("the function my_udf")
    return None
