"""custom: a query returns no rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from rivet_dagster.checks.contract import Problem, QueryCheck, Reading
from rivet_dagster.model import convert
from rivet_dagster.model.check_plan import BoundQuery
from rivet_dagster.model.schema import Schema
from rivet_dagster.sql import trees
from rivet_dagster.sql.columns.unknown_columns import UnknownColumn, unknown_columns
from rivet_dagster.sql.error import UnreadableSql
from rivet_dagster.sql.parsing.dialect import Query, SqlError, quote_name, read_query, translate_parser_errors
from rivet_dagster.sql.parsing.embedding import on_lines_of_its_own
from rivet_dagster.sql.parsing.known_query import reads

_THIS = re.compile(r"\{\{\s*this\s*\}\}")


@dataclass(frozen=True)
class Custom(QueryCheck):
    """Violations are the rows of the query, in which ``{{ this }}`` and the joint's name refer to the checked rows.

    >>> Custom(sql="SELECT * FROM {{ this }} WHERE net < 0; -- never").query("orders").text
    'SELECT * FROM orders WHERE net < 0'
    """

    sql: str

    options: ClassVar = {"sql": convert.text}
    positional: ClassVar = "sql"

    def query(self, joint: str) -> Query:
        """Return the query, without a closing ``;``. Raises SqlError."""
        return read_query(_THIS.sub(quote_name(joint), self.sql))

    def reading(self, joint: str) -> Reading:
        try:
            tables = self._tables(joint)
        except SqlError as error:
            problem = Problem(f"its SQL {error}", error.line, certain=not isinstance(error, UnreadableSql))
            return Reading(problems=(problem,))
        if joint in tables:
            return Reading(tables)
        message = f"its SQL does not read the rows it judges, '{joint}' or {{{{ this }}}}"
        return Reading(tables, problems=(Problem(message),))

    def _tables(self, joint: str) -> tuple[str, ...]:
        query = self.query(joint)
        if query.tree is None:
            raise query.unreadable or UnreadableSql("could not be read")
        with translate_parser_errors():
            return tuple(reads(query))

    def unknown_columns(self, joint: str, tables: Mapping[str, Schema | None]) -> Iterable[UnknownColumn]:
        with suppress(SqlError):  # reported elsewhere, or left to the engine
            query = self.query(joint)
            return unknown_columns(query.text, query.tree, tables) if query.tree is not None else ()
        return ()

    def violations(self, joint: str) -> str:
        return trees.text(
            trees.select(trees.named(trees.number_of_rows(), trees.VIOLATIONS), of=self._violating(joint))
        )

    def samples(self, joint: str, limit: int) -> BoundQuery:
        return BoundQuery(trees.text(trees.limited(trees.select(of=self._violating(joint)), limit)))

    def _violating(self, joint: str) -> exp.Subquery:
        """Return the user's query, unchanged, as a relation."""
        written = trees.as_written(on_lines_of_its_own(self.query(joint).text))
        return exp.Subquery(this=written, alias=exp.TableAlias(this=exp.to_identifier("violation", quoted=True)))
