"""The names in a query of what a run provides: its start time, a sink's published rows and its watermark.

The named parameters in users' SQL.

Detection of parameters that a user has put within quotes.
"""

from __future__ import annotations

from itertools import pairwise

from sqlglot import TokenType, exp
from sqlglot.tokens import Token

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.parsing.dialect import SqlError, tokenize

RUN_STARTED_AT = "run_started_at"
"""The parameter bound to the start time of the run."""


_VARIABLE = "var_"
_SOURCE = "_rivet_source_"


def watermark_of(sink: str) -> str:
    """Return the name of the parameter that is bound to the watermark of a sink.

    >>> parameter(watermark_of("orders"))
    ':watermark_of_orders'
    """
    return f"watermark_of_{sink}"


def variable_of(name: str) -> str:
    """Return the name of the parameter that is bound to a variable of templates.

    >>> parameter(variable_of("region"))
    ':var_region'
    """
    return f"{_VARIABLE}{name}"


def is_variable(parameter_name: str) -> bool:
    """Return whether a parameter is bound to a variable of templates."""
    return parameter_name.startswith(_VARIABLE)


def target_view(sink: str) -> str:
    """Return the name of the relation that holds a sink's published rows; no joint can have that name.

    >>> target_view("orders")
    '_rivet_this_orders'
    """
    return f"_rivet_this_{sink}"


def source_view(source: str) -> str:
    """Return the name of the relation of a source's rows before its inline transforms; no joint can have that name.

    >>> source_view("orders")
    '_rivet_source_orders'
    """
    return f"{_SOURCE}{source}"


def source_of(relation: str) -> str | None:
    """Return the source whose rows before its inline transforms are in ``relation``, None for any other relation.

    >>> source_of("_rivet_source_orders"), source_of("orders")
    ('orders', None)
    """
    return relation.removeprefix(_SOURCE) if relation.startswith(_SOURCE) else None


def parameter(name: str) -> str:
    """Return a parameter as it is written in a query."""
    return f":{name}"


def greatest_query(relation: str, column: str) -> str:
    """Return the query of the max of a column of ``relation``, as ``greatest``.

    >>> greatest_query("_rivet_this_orders", "at")
    'SELECT MAX(`at`) AS `greatest` FROM `_rivet_this_orders`'
    """
    value = exp.alias_(exp.Max(this=exp.column(column, quoted=True)), "greatest", quoted=True)
    table = exp.Table(this=exp.to_identifier(relation, quoted=True))
    return exp.select(value).from_(table).sql(dialect=SPARK)


_ENDS_A_VALUE = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET}


def parameters(sql: str) -> dict[str, int]:
    """Return each ``:name`` of ``sql`` with the line, counted from 1, of its first use. Raise SqlError.

    A ``:name`` that directly follows a value is a path into the value, and no parameter.

    >>> parameters("SELECT v:name, ':no' -- :neither\\nFROM t WHERE day >= :partition_start")
    {'partition_start': 2}
    """
    lines: dict[str, int] = {}
    tokens = tokenize(sql)
    for before, (colon, word) in zip([None, *tokens], pairwise(tokens), strict=False):
        if _is_marker(before, colon, word):
            lines.setdefault(word.text, word.line)
    return lines


def _is_marker(before: Token | None, colon: Token, word: Token) -> bool:
    if colon.token_type != TokenType.COLON or word.start != colon.end + 1 or not word.text.isidentifier():
        return False
    return before is None or before.token_type not in _ENDS_A_VALUE or before.end + 1 != colon.start


def line_in_quotes(sql: str, marker: str) -> int | None:
    """Return the line of the first quoted string or name that contains the parameter ``marker``; None without any.

    >>> line_in_quotes("SELECT *\\nFROM t WHERE at > ':since'", ":since"), line_in_quotes("SELECT :since", ":since")
    (2, None)
    """
    try:
        # Outside of quotes the colon is a separate token.
        return next((token.line for token in tokenize(sql) if marker in token.text), None)
    except SqlError:
        return None
