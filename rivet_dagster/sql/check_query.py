"""The query of a custom check, whose rows are violations."""

from __future__ import annotations

import re

from rivet_dagster.sql.dialect import Query, guarded, quoted, read_query
from rivet_dagster.sql.error import Unreadable
from rivet_dagster.sql.reads import reads

_THIS = re.compile(r"\{\{\s*this\s*\}\}")


def read_check(sql: str, relation: str) -> Query:
    """The query, where ``{{ this }}`` and the joint's own name ``relation`` are the rows that it judges.

    Raises SqlError.
    """
    return read_query(_THIS.sub(quoted(relation), sql))


def tables_of_check(sql: str, relation: str) -> list[str]:
    """The tables that the query reads. Raises SqlError, Unreadable where only the engine may know them.

    >>> tables_of_check("SELECT * FROM {{ this }} JOIN b USING (id)", "a")
    ['a', 'b']
    """
    query = read_check(sql, relation)
    if query.tree is None:
        raise query.unreadable or Unreadable("could not be read")
    with guarded():
        return list(reads(query.tree))


def query_of_check(sql: str, relation: str) -> str:
    """The text of the query, without a closing ``;``.

    >>> query_of_check("SELECT * FROM {{ this }} WHERE net < 0; -- never", "orders")
    'SELECT * FROM orders WHERE net < 0'
    """
    return read_check(sql, relation).text
