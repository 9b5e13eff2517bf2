"""Spark's names of types, as printed in its schemas."""

from __future__ import annotations

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.model.schema import Field, Schema, field_name
from rivet_dagster.sql.parsing.dialect import SqlError, translate_parser_errors
from rivet_dagster.sql.parsing.embedding import refuse_unbalanced
from rivet_dagster.sql.parsing.lexer import without_comments

_T = exp.DataType.Type

_PLAIN = {
    _T.TINYINT: "tinyint",
    _T.SMALLINT: "smallint",
    _T.INT: "int",
    _T.BIGINT: "bigint",
    _T.FLOAT: "float",
    _T.DOUBLE: "double",
    _T.BOOLEAN: "boolean",
    _T.TEXT: "string",
    _T.VARCHAR: "string",
    _T.CHAR: "string",
    _T.BINARY: "binary",
    _T.DATE: "date",
    _T.TIMESTAMP: "timestamp",
    _T.TIMESTAMPTZ: "timestamp",
    _T.TIMESTAMPLTZ: "timestamp",
    _T.TIMESTAMPNTZ: "timestamp_ntz",
    _T.VARIANT: "variant",
}


def type_name(kind: exp.Expr | None) -> str | None:
    """Return the name of a type written in SQL; None for types whose meaning is not unambiguous.

    >>> type_name(exp.DataType.build("MAP<STRING, STRUCT<Id: LONG, d: DECIMAL(4)>>", dialect=SPARK))
    'map<string,struct<Id:bigint,d:decimal(4,0)>>'
    """
    if not isinstance(kind, exp.DataType):
        return None
    parts = kind.expressions
    if kind.this == _T.DECIMAL:
        digits = [part.name for part in parts] or ["10"]
        return f"decimal({digits[0]},{digits[1] if len(digits) > 1 else 0})"
    if kind.this == _T.STRUCT:
        fields = [_struct_field(part) for part in parts]
        return None if None in fields or not fields else f"struct<{','.join(str(f) for f in fields)}>"
    if kind.this in (_T.ARRAY, _T.MAP):
        inner = [type_name(part) for part in parts]
        wanted = 1 if kind.this == _T.ARRAY else 2
        word = "array" if kind.this == _T.ARRAY else "map"
        return f"{word}<{','.join(str(t) for t in inner)}>" if len(inner) == wanted and None not in inner else None
    return _PLAIN.get(kind.this) if not kind.args.get("collate") else None


def parse_ddl(ddl: str) -> Schema | None:
    """Return the columns of a Spark DDL text such as ``id BIGINT, name STRING``; None where it cannot be parsed.

    >>> parse_ddl("id BIGINT, name STRING NOT NULL")
    (Field(name='id', type='bigint'), Field(name='name', type='string'))
    """
    try:
        refuse_unbalanced(ddl)
        with translate_parser_errors():
            tree: exp.Expr = exp.maybe_parse(f"CREATE TABLE t ({without_comments(ddl)})", dialect=SPARK)
            return _columns(tree)
    except SqlError:
        return None


def _columns(tree: exp.Expr) -> Schema | None:
    if not isinstance(tree, exp.Create) or not isinstance(tree.this, exp.Schema):
        return None
    columns = tree.this.expressions
    if not all(isinstance(c, exp.ColumnDef) and c.kind is not None for c in columns):
        return None
    plain = {c.name: not any(isinstance(k.kind, exp.CollateColumnConstraint) for k in c.constraints) for c in columns}
    return tuple(Field(c.name, type_name(c.kind) if plain[c.name] else None) for c in columns)


def _struct_field(part: exp.Expr) -> str | None:
    kind = (
        type_name(part.args.get("kind"))
        if isinstance(part, exp.ColumnDef) and not part.args.get("constraints")
        else None
    )
    return None if kind is None else f"{field_name(part.name)}:{kind}"
