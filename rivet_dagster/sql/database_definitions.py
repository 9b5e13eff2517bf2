"""The statements that make, change and drop tables of a database."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from rivet_dagster.sql.database_trees import Name, table
from rivet_dagster.sql.mariadb import DIALECT, to_sql


def create_table(name: Name, columns: Iterable[tuple[str, str]], dialect: str, unlogged: bool = False) -> str:
    """Return the statement that makes a table; ``columns`` are pairs of name and type of the database.

    >>> create_table(("shop", "orders"), [("id", "bigint")], "postgres", unlogged=True)
    'CREATE UNLOGGED TABLE "shop"."orders" ("id" bigint)'
    """
    definitions = [_definition(column, type_) for column, type_ in columns]
    made = exp.Create(this=exp.Schema(this=table(name), expressions=definitions), kind="TABLE")
    return to_sql(_unlogged(made, unlogged), dialect)


def create_table_of(name: Name, query: str, dialect: str, unlogged: bool) -> str:
    """Return the statement that makes a table of the rows of a query.

    >>> create_table_of(("shop", "orders"), "SELECT 1 AS id", "postgres", unlogged=True)
    'CREATE UNLOGGED TABLE "shop"."orders" AS SELECT 1 AS id'
    """
    made = exp.Create(this=table(name), kind="TABLE", expression=exp.Var(this=query))
    return to_sql(_unlogged(made, unlogged), dialect)


def create_table_like(name: Name, other: Name, dialect: str) -> str:
    """Return the statement that makes a table with the columns, defaults, constraints and indexes of another.

    >>> create_table_like(("shop", "new"), ("shop", "orders"), "postgres")
    'CREATE TABLE "shop"."new" (LIKE "shop"."orders" INCLUDING ALL)'
    >>> create_table_like(("shop", "new"), ("shop", "orders"), DIALECT)
    'CREATE TABLE `shop`.`new` (LIKE `shop`.`orders`)'
    """
    everything = [] if dialect == DIALECT else [exp.Property(this="INCLUDING", value=exp.Var(this="ALL"))]
    like = exp.LikeProperty(this=table(other), expressions=everything)
    return to_sql(exp.Create(this=exp.Schema(this=table(name), expressions=[like]), kind="TABLE"), dialect)


def add_column(name: Name, column: str, type_: str, dialect: str) -> str:
    """Return the statement that gives a table a column, in which its rows are NULL.

    >>> add_column(("shop", "orders"), "net", "numeric(9,2)", "postgres")
    'ALTER TABLE "shop"."orders" ADD COLUMN "net" numeric(9,2)'
    """
    return _alter(name, _definition(column, type_), dialect)


def change_type(name: Name, column: str, type_: str, dialect: str, without_rows: bool = False) -> str:
    """Return the statement that changes the type of a column, to which its values are cast if it has any.

    >>> change_type(("shop", "orders"), "id", "bigint", "postgres")
    'ALTER TABLE "shop"."orders" ALTER COLUMN "id" SET DATA TYPE bigint'
    """
    using = exp.Cast(this=exp.Null(), to=_type(type_)) if without_rows else None
    return _alter(name, exp.AlterColumn(this=_name(column), dtype=_type(type_), using=using), dialect)


def drop_column(name: Name, column: str, dialect: str) -> str:
    """Return the statement that takes a column from a table.

    >>> drop_column(("shop", "orders"), "net", "postgres")
    'ALTER TABLE "shop"."orders" DROP COLUMN "net"'
    """
    return _alter(name, exp.Drop(tables=[exp.Column(this=_name(column))], kind="COLUMN"), dialect)


def rename_table(name: Name, new: str, dialect: str) -> str:
    """Return the statement that renames a table within its schema.

    >>> rename_table(("shop", "new"), "orders", "postgres")
    'ALTER TABLE "shop"."new" RENAME TO "orders"'
    """
    return _alter(name, exp.AlterRename(this=exp.Table(this=_name(new))), dialect)


def set_logged(name: Name, dialect: str) -> str:
    """Return the statement that has a table survive a crash of the database.

    >>> set_logged(("shop", "new"), "postgres")
    'ALTER TABLE "shop"."new" SET LOGGED'
    """
    return _alter(name, exp.AlterSet(option=exp.Var(this="LOGGED")), dialect)


def drop_table(name: Name, dialect: str, must_exist: bool = False) -> str:
    """Return the statement that drops a table.

    >>> drop_table(("shop", "new"), "postgres")
    'DROP TABLE IF EXISTS "shop"."new"'
    """
    return to_sql(exp.Drop(tables=[table(name)], kind="TABLE", exists=not must_exist), dialect)


def quote_name(name: str, dialect: str) -> str:
    """Return a name as statements have it.

    >>> quote_name("order", "postgres"), quote_name("order", "mysql")
    ('"order"', '`order`')
    """
    return to_sql(_name(name), dialect)


def quote_table(name: Name, dialect: str) -> str:
    """Return schema and name of a table as statements have them.

    >>> quote_table(("shop", "order"), "postgres")
    '"shop"."order"'
    """
    return to_sql(table(name), dialect)


def quote_text(text: str, dialect: str) -> str:
    """Return a text as statements have it.

    >>> print(quote_text("it's", "postgres"))
    'it''s'
    """
    return to_sql(exp.Literal.string(text), dialect)


def _alter(name: Name, action: exp.Expr, dialect: str) -> str:
    return to_sql(exp.Alter(this=table(name), kind="TABLE", actions=[action]), dialect)


def _definition(column: str, type_: str) -> exp.ColumnDef:
    return exp.ColumnDef(this=_name(column), kind=_type(type_))


def _type(text: str) -> exp.DataType:
    return exp.DataType(this=exp.DType.USERDEFINED, kind=text)


def _unlogged(made: exp.Create, unlogged: bool) -> exp.Create:
    if unlogged:
        made.set("properties", exp.Properties(expressions=[exp.UnloggedProperty()]))
    return made


def _name(column: str) -> exp.Identifier:
    return exp.to_identifier(column, quoted=True)
