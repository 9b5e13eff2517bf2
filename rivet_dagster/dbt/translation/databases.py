"""Catalogs of the new project that are the PostgreSQL databases of dbt's profile, and the sources that are in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from rivet_dagster.dbt.declared import DbtDatabase, DbtProject, SourceTable
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, ReportEntry
from rivet_dagster.dbt.translation.annotations import SEEDS, SESSION, WAREHOUSE
from rivet_dagster.dbt.translation.names import clean_name
from rivet_dagster.dbt.translation.strategy import LeftOutError

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
        own = self.by_name[self.published].options.get("schema", _SCHEMA)
        if "$" in own:
            return alias, (f"its schema in dbt is '{own}_{schema}', which only a run knows: here it is '{own}'",)
        whole = f"{own}_{schema}"
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
                yield ReportEntry(database.output, database.place, LEFT_OUT, reasons=why, kind="profile")
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
            yield ReportEntry(database.output, database.place, CHANGED, reasons=tuple(reasons), kind="profile")


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
