"""The names of a query's output columns, and their types where they only pass through."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import ParseError, TokenError

from rivet_dagster.model.schema import Field, Schema


def output_columns(tree: exp.Expr, tables: Mapping[str, Schema | None]) -> Schema | None:
    """The columns in order, given the columns of the tables it reads (by lower-case name); None where one is unknown.

    Only what follows without knowing the engine is told: a type is that of the column it passes on, or of a CAST.

    >>> from rivet_dagster.sql.dialect import read_query
    >>> tree = read_query("SELECT *, CAST(a AS INT) AS b, a + 1 AS c FROM t").tree
    >>> [(f.name, f.type) for f in output_columns(tree, {"t": (Field("a", "string"),)})]
    [('a', 'string'), ('b', 'int'), ('c', None)]
    """
    visible = dict(tables)
    declared = tree.args.get("with_")
    if declared is not None:
        for cte in declared.expressions:
            columns = None if declared.recursive else output_columns(cte.this, visible)
            visible[cte.alias.lower()] = _renamed(columns, cte.args.get("alias"))
    if isinstance(tree, exp.Subquery):
        return output_columns(tree.this, visible)
    if isinstance(tree, exp.SetOperation):
        return output_columns(tree.left, visible)
    if not isinstance(tree, exp.Select) or tree.args.get("laterals") or tree.args.get("operation_modifiers"):
        return None
    inputs = _inputs(tree, visible)
    fields: list[Field] = []
    for item in tree.expressions:
        found = _columns_of(item, inputs)
        if found is None:
            return None
        fields += found
    return tuple(fields)


def parse_ddl(ddl: str) -> Schema | None:
    """The columns of a Spark DDL text such as ``id BIGINT, name STRING``; None where it cannot be read.

    >>> parse_ddl("id BIGINT, name STRING NOT NULL")
    (Field(name='id', type='bigint'), Field(name='name', type='string'))
    """
    try:
        tree: exp.Expr = exp.maybe_parse(f"CREATE TABLE t ({ddl})", dialect=Databricks)
    except (ParseError, TokenError):
        return None
    if not isinstance(tree, exp.Create) or not isinstance(tree.this, exp.Schema):
        return None
    columns = tree.this.expressions
    if not all(isinstance(c, exp.ColumnDef) and c.kind is not None for c in columns):
        return None
    return tuple(Field(c.name, _type_name(c.kind)) for c in columns)


def _inputs(select: exp.Select, visible: Mapping[str, Schema | None]) -> dict[str, Schema | None] | None:
    """The columns of each FROM item by its alias; None where stars and names cannot be traced."""
    start = select.args.get("from_")
    joins = select.args.get("joins") or []
    if start is None:
        return {}
    if any(j.args.get("using") or (j.args.get("method") or "").upper() == "NATURAL" for j in joins):
        return None
    found: dict[str, Schema | None] = {}
    for item in [start.this, *[j.this for j in joins if (j.args.get("kind") or "").upper() not in ("SEMI", "ANTI")]]:
        columns: Schema | None = None
        if isinstance(item, exp.Table) and not item.args.get("db") and not item.args.get("pivots"):
            columns = visible.get(item.name.lower())
        elif isinstance(item, exp.Subquery) and not item.args.get("pivots"):
            columns = output_columns(item.this, visible)
        found[item.alias_or_name.lower()] = _renamed(columns, item.args.get("alias"))
    return found


def _columns_of(item: exp.Expr, inputs: dict[str, Schema | None] | None) -> list[Field] | None:
    if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
        star = item if isinstance(item, exp.Star) else item.this
        if inputs is None or star.args.get("except_") or star.args.get("replace") or star.args.get("rename"):
            return None
        wanted = [item.table.lower()] if isinstance(item, exp.Column) else list(inputs)
        fields: list[Field] = []
        for name in wanted:
            columns = inputs.get(name)
            if columns is None:
                return None
            fields += columns
        return fields
    if isinstance(item, exp.Alias):
        return [Field(item.alias, _type_of(item.this, inputs))]
    if isinstance(item, exp.Column):
        return [Field(item.name, _type_of(item, inputs))]
    return None


def _type_of(expression: exp.Expr, inputs: dict[str, Schema | None] | None) -> str | None:
    if isinstance(expression, exp.Cast):
        return _type_name(expression.to)
    if not isinstance(expression, exp.Column) or inputs is None:
        return None
    tables = [expression.table.lower()] if expression.table else list(inputs)
    matches = [
        field for table in tables for field in inputs.get(table) or () if field.name.lower() == expression.name.lower()
    ]
    known = all(inputs.get(table) is not None for table in tables)
    return matches[0].type if known and len(matches) == 1 else None


def _type_name(kind: exp.Expr) -> str:
    return kind.sql(dialect=Databricks).lower()


def _renamed(columns: Schema | None, alias: exp.Expr | None) -> Schema | None:
    names = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    if not names or columns is None:
        return None if names else columns
    return tuple(Field(n.name, f.type) for n, f in zip(names, columns, strict=False))
