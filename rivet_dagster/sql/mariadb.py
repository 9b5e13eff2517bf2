"""The SQL of MariaDB, for sessions in which a backslash in a text is a character like others."""

from __future__ import annotations

from sqlglot import exp

DIALECT = "mariadb"

_PARENT = "mysql"
"""sqlglot's dialect that is nearest to it."""

EXACT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
"""The attributes of a column whose texts are compared as engines do: each character, trailing spaces included."""


def to_sql(tree: exp.Expr, dialect: str) -> str:
    """Return the text of a tree in a dialect of sqlglot, or in MariaDB's SQL.

    There the collation C, the order of bytes, is the one that has it for texts of any character set; the rows of a
    DELETE are named; and a text has no escapes.

    >>> to_sql(exp.Collate(this=exp.column("a"), expression=exp.to_identifier("C")), DIALECT)
    'CAST(a AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_nopad_bin'
    >>> target = exp.table_("t", alias="x")
    >>> to_sql(exp.Delete(this=target, using=[exp.table_("s")], where=exp.Where(this=exp.true())), DIALECT)
    'DELETE x FROM t AS x CROSS JOIN s WHERE TRUE'
    >>> print(to_sql(exp.Literal.string("it's a\\\\b"), DIALECT))
    'it''s a\\b'
    """
    if dialect != DIALECT:
        return tree.sql(dialect=dialect)
    changed = tree.transform(_with_plain_texts)
    for node in list(changed.walk()):
        _change(node)
    return changed.sql(dialect=_PARENT)


def parent_of(dialect: str) -> str:
    """Return sqlglot's name of the dialect, or of the nearest one."""
    return _PARENT if dialect == DIALECT else dialect


def failing(text: exp.Expr, type_: str) -> exp.Expr:
    """Return an expression of that type whose evaluation fails with an error that shows the expression ``text``.

    >>> to_sql(failing(exp.Literal.string("no"), "date"), DIALECT)
    "CAST(EXP(1000 + OCTET_LENGTH('no')) AS date)"
    """
    length = exp.Anonymous(this="OCTET_LENGTH", expressions=[text])
    too_large = exp.Exp(this=exp.Add(this=exp.Literal.number(1000), expression=length))
    return exp.Cast(this=too_large, to=exp.Var(this=type_))


def _with_plain_texts(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Literal) and node.is_string:
        return exp.Var(this="'" + node.name.replace("'", "''") + "'")
    return node


def _change(node: exp.Expr) -> None:
    if isinstance(node, exp.Collate) and node.expression.name == "C":
        node.set("this", exp.Cast(this=node.this, to=_type("CHAR CHARACTER SET utf8mb4")))
        node.set("expression", exp.Var(this="utf8mb4_nopad_bin"))
    elif isinstance(node, exp.Cast) and isinstance(node.args["to"], exp.Var):
        node.set("to", _type(node.args["to"].name))
    elif isinstance(node, exp.Delete) and node.this.alias:
        target = node.this
        node.set("tables", [exp.Table(this=target.args["alias"].this.copy())])
        for other in node.args.pop("using", None) or ():
            target.append("joins", exp.Join(this=other, kind="CROSS"))


def _type(text: str) -> exp.DataType:
    return exp.DataType(this=exp.DType.USERDEFINED, kind=text)
