"""A dbt project on PostgreSQL: its databases as catalogs, the sources that are in them, and its SQL.

What Spark reads alike is taken as it is; a model or a test with any other SQL is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

from rivet_dagster.dbt.declared import DbtDatabase, DbtLocation, DbtProject, SourceTable
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, ReportEntry
from rivet_dagster.dbt.translation.annotations import SEEDS, SESSION, WAREHOUSE, JointDraft
from rivet_dagster.dbt.translation.names import clean_name
from rivet_dagster.dbt.translation.strategy import LeftOutError
from rivet_dagster.dbt.values import UnknownValueError
from rivet_dagster.sql.postgres.comparison import compare_with_spark

_UNNAMED = "postgres"
_SCHEMA = "public"
_NAMES_SCHEMAS = "generate_schema_name"


@dataclass(frozen=True)
class DatabaseCatalogs:
    """The databases of a profile by the catalogs that they become; the target's is the first.

    ``is_postgres`` says whether the models themselves run in such a database, and ``names_schemas`` whether a macro of
    the project says in which schemas.
    """

    by_name: Mapping[str, DbtDatabase]
    is_postgres: bool
    names_schemas: bool = False

    @property
    def published(self) -> str:
        """The catalog to which models are published: the target's database, or a folder where it is none."""
        target = next((name for name, each in self.by_name.items() if each.is_target), None)
        return target if self.is_postgres and target is not None else WAREHOUSE

    def table(self, alias: str, schema: str | None, is_whole: bool = False) -> tuple[str, tuple[str, ...]]:
        """Return how a joint names a model's table, and what is told of it. Raise LeftOutError.

        ``schema`` is that of the model's configuration, which follows the target's, or with ``is_whole`` is all of it.
        """
        if self.published == WAREHOUSE:
            return alias, ()
        if "." in alias:
            raise LeftOutError(f"a catalog of the type jdbc has no table '{alias}', with a dot in its name", "alias")
        if schema is None or (is_whole and schema == self.by_name[self.published].options.get("schema")):
            return alias, ()
        if not re.fullmatch(r"\w+", schema):
            raise LeftOutError(f"the schema '{schema}' is no name", "schema")
        if is_whole:
            return f"{schema}.{alias}", ()
        prefix = self.by_name[self.published].options.get("schema", _SCHEMA)
        if "$" in prefix:
            return alias, (f"its schema in dbt is '{prefix}_{schema}', which only a run knows: here it is '{prefix}'",)
        whole = f"{prefix}_{schema}"
        by_macro = f"its schema is '{whole}', as dbt names it without the project's macro {_NAMES_SCHEMAS}"
        return f"{whole}.{alias}", (by_macro,) if self.names_schemas else ()

    def of_source(self, table: SourceTable) -> tuple[str | None, tuple[str, ...]]:
        """Return the catalog of a source, None for Spark's own, and what is told of it. Raise LeftOutError."""
        if not table.database:
            return next((name for name, each in self.by_name.items() if each.is_target), None), ()
        same = [name for name, each in self.by_name.items() if each.name == table.database]
        same = same or [name for name, each in self.by_name.items() if each.output == table.database]
        if not same:
            if self.is_postgres:
                raise LeftOutError(f"its database '{table.database}' is that of no output of the profile")
            return None, ()
        if len(same) == 1 or self.by_name[same[0]].is_target:
            return same[0], ()
        outputs = ", ".join(self.by_name[name].output for name in same)
        return same[0], (f"its database is that of the outputs {outputs}: the first one's is taken",)

    def options(self, name: str) -> dict[str, str]:
        """Return the options of a catalog, its password as a variable of the environment."""
        database = self.by_name[name]
        options = {"type": "jdbc", "url": database.options["url"], "user": database.options["user"]}
        if database.password is not None:
            options["password"] = f"${{{database.password or _own_variable(name)}}}"
        return {**options, **database.options}

    def used(self, catalogs: Set[str]) -> list[str]:
        """Return the catalogs that are written: those of sources, and the target's."""
        return [name for name, each in self.by_name.items() if each.is_target or name in catalogs]

    def entries(self, catalogs: Set[str]) -> Iterator[ReportEntry]:
        """Yield what became of each database."""
        used = self.used(catalogs)
        for name, database in self.by_name.items():
            if name not in used:
                why = (f"no source is in its database '{database.name}', so there is no catalog of it",)
                yield ReportEntry(database.output, database.location, LEFT_OUT, reasons=why, kind="profile")
                continue
            reasons = [f"it is the catalog '{name}'"]
            if database.password == "":
                reasons.append(f"`password` is ${{{_own_variable(name)}}}: it is a secret, and is not copied")
            if database.is_target and self.is_postgres:
                reasons += [
                    "tables are published to it; one that dbt has made is taken over by `rivet-dagster adopt JOINT`, "
                    "or by `adopt: true` in the joint",
                    "models that are views are computed where they are read: the views that dbt has made stay as they "
                    f"are; `catalog: {name}` in a joint publishes a table",
                ]
            reasons += database.notes
            yield ReportEntry(database.output, database.location, CHANGED, reasons=tuple(reasons), kind="profile")


def name_databases(project: DbtProject) -> DatabaseCatalogs:
    """Return the catalogs of a project's databases, each named as its database, or else with its output's name."""
    named: dict[str, DbtDatabase] = {}
    taken = {WAREHOUSE, SEEDS, SESSION}
    for database in sorted(project.databases, key=lambda each: not each.is_target):
        plain = clean_name(_UNNAMED if "${" in database.name else database.name)
        wanted = plain if plain not in taken else clean_name(f"{plain}_{database.output}")
        name, number = wanted, 1
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        taken.add(name)
        named[name] = database
    names_schemas = any(macro.name == _NAMES_SCHEMAS for macro in project.root.macros)
    return DatabaseCatalogs(named, project.target.is_postgres, names_schemas)


def _own_variable(catalog: str) -> str:
    return f"{catalog.upper()}_PASSWORD"


_MOST_DIFFERENCES = 10
"""How many differences of a query are told."""

_REMEDY = "the SQL is PostgreSQL's: change this in the dbt project to what both know, or write the joint by hand"


def compare_draft(draft: JointDraft, render: Callable[[str, str, bool], str]) -> None:
    """Leave a joint out whose query is different in Spark, and add to its reasons what is the same but for details."""
    assert draft.body is not None
    messages: dict[str, None] = {}
    notes: dict[str, None] = {}
    for incremental in (False, True):
        try:
            text = render(draft.body, "", incremental)
        except UnknownValueError as error:
            messages[f"its query cannot be compared with Spark's SQL: {error}"] = None
            continue
        compared = compare_with_spark(text)
        is_same_length = text.count("\n") == draft.body.count("\n")
        for difference in compared.differences:
            location: DbtLocation = draft.location
            if is_same_length and difference.line is not None and difference.line <= len(draft.lines):
                location = DbtLocation(draft.location.file, draft.lines[difference.line - 1])
            messages[f"{location}: {difference.message}"] = None
        notes |= dict.fromkeys(compared.notes)
    if messages:
        draft.left_out += [*_cut(list(messages)), _REMEDY]
    else:
        draft.reasons += notes


def refuse_other_sql(sql: str) -> None:
    """Raise LeftOutError for the query of a check that is different in Spark."""
    compared = compare_with_spark(sql.replace("{{ this }}", "rivet_this"))
    if compared.differences:
        messages = _cut([difference.message for difference in compared.differences])
        raise LeftOutError(f"its SQL is PostgreSQL's: {'; '.join(messages)}")


_TYPES = {
    "timestamp": "timestamp_ntz",
    "timestamp with time zone": "timestamp",
    "float": "double",
    "double precision": "double",
    "real": "float",
}


def spark_type(declared: str) -> str:
    """Return the type that Spark has for one of a seed's columns, as ``column_types`` gives it. Raise ValueError.

    >>> spark_type("timestamp"), spark_type("numeric(10, 2)")
    ('timestamp_ntz', 'numeric(10, 2)')
    """
    word = " ".join(declared.lower().split())
    if word in ("numeric", "decimal"):
        raise ValueError(f"the type {declared} has any number of digits in PostgreSQL: give it some, as numeric(38, 9)")
    return _TYPES.get(word, declared)


def _cut(messages: list[str]) -> list[str]:
    more = len(messages) - _MOST_DIFFERENCES
    return [*messages[:_MOST_DIFFERENCES], *([f"and {more} more"] if more > 0 else [])]
