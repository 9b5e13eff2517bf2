"""Resolution of ``IDENTIFIER('name')`` clauses."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import TokenType, exp
from sqlglot.tokens import Token


def named_at_run_time(tokens: Sequence[Token]) -> Token | None:
    """Return the first IDENTIFIER clause that has no plain literal or names a function; None where there is none."""
    for position, token in enumerate(tokens):
        if token.text.upper() != "IDENTIFIER" or token.token_type == TokenType.IDENTIFIER:
            continue
        kinds = [t.token_type for t in tokens[position + 1 : position + 5]]
        is_text = kinds[1:3] == [TokenType.STRING, TokenType.R_PAREN] and TokenType.L_PAREN not in kinds[3:]
        if kinds[:1] == [TokenType.L_PAREN] and not is_text:
            return token
    return None


def with_names(tree: exp.Expr, dialect: exp.DialectType) -> exp.Expr:
    """Return the tree with each IDENTIFIER clause of a literal replaced by the table or column that it names.

    >>> from sqlglot import parse_one
    >>> with_names(parse_one("SELECT IDENTIFIER('t.x') FROM IDENTIFIER('s.t') AS t"), "databricks").sql()
    'SELECT t.x FROM s.t AS t'
    """
    return tree.transform(_named, dialect, copy=False)


def _named(node: exp.Expr, dialect: exp.DialectType) -> exp.Expr:
    if isinstance(node, exp.Table) and _is_clause(node.this):
        table = exp.to_table(node.this.expressions[0].name, dialect=dialect)
        for slot in ("this", "db", "catalog"):
            node.set(slot, table.args.get(slot))
        return node
    if _is_clause(node):
        return exp.to_column(node.expressions[0].name, dialect=dialect)
    return node


def _is_clause(node: object) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "IDENTIFIER"
