"""Properties files: what YAML says of models, seeds, snapshots, sources, macros, groups and exposures.

Generic data tests are listed there, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.dbt.declared import (
    Config,
    DataTest,
    DbtLocation,
    DeclaredColumn,
    DeclaredExposure,
    ModelVersion,
    Other,
    Owner,
    Properties,
    SourceTable,
    UnitTest,
)
from rivet_dagster.dbt.files import line_of
from rivet_dagster.dbt.reading.config import config_of, folder_configs, located_config, merge_configs, rendered_config
from rivet_dagster.dbt.reading.project_file import notes_of
from rivet_dagster.dbt.reading.versions import whole_version, wrong_rules
from rivet_dagster.dbt.values import (
    UnknownValueError,
    convert_setting,
    escape,
    project_file_context,
    refer_to_environment,
    render_value,
)
from rivet_dagster.project.yaml_text import Located

PATCHED = {"models": "model", "seeds": "seed", "snapshots": "snapshot", "analyses": "analysis", "macros": "macro"}
"""The sections that describe nodes, with the kinds of these."""

_OTHERS = {
    "metrics": "metric",
    "semantic_models": "semantic_model",
    "saved_queries": "saved_query",
    "functions": "function",
}
_KNOWN = {
    *PATCHED,
    *_OTHERS,
    "exposures",
    "unit_tests",
    "version",
    "sources",
    "groups",
    "data_tests",
    "tests",
    "anchors",
}


_DATABASE_OF_TARGET = re.compile(r"\s*\{\{-?\s*target\.(?:dbname|database)\s*-?\}\}\s*")
_BESIDE_CONFIG = ("meta", "group", "docs", "access", "contract")


@dataclass
class FileProperties:
    """Contents of the properties files of a package."""

    patches: dict[tuple[str, str], Properties] = field(default_factory=dict)
    sources: list[SourceTable] = field(default_factory=list)
    groups: dict[str, Owner] = field(default_factory=dict)
    exposures: list[DeclaredExposure] = field(default_factory=list)
    unit_tests: list[UnitTest] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    problems: list[Other] = field(default_factory=list)


class PropertiesReader:
    """Reads one file after another into ``read``; ``context`` is that of values, ``docs`` returns a docs block."""

    def __init__(
        self, package: str, context: Mapping[str, Any], docs: Callable[[str], str], trees: list[tuple[str, Any]]
    ) -> None:
        self.read = FileProperties()
        self._package = package
        self._context = context
        self._docs = docs
        self._trees = trees
        self._file = ""
        self._folder: tuple[str, ...] = ()

    def add(self, value: Located, file: str, folder: tuple[str, ...]) -> None:
        """Read the mapping of a file; ``folder`` is where it is below the folder of its kind."""
        self._file, self._folder = file, folder
        for key in value:
            if key not in _KNOWN:
                self._problem("properties", key, line_of(value, key), f"the section '{key}' is not known")
            elif value[key] is not None and key != "version" and key != "anchors" and not isinstance(value[key], list):
                self._problem("properties", key, line_of(value, key), f"`{key}` must be a list")
        for section, kind in PATCHED.items():
            for entry in self._entries(value, section):
                self._patch(kind, entry)
        for entry in self._entries(value, "macros"):
            if entry.get("description") or entry.get("arguments"):
                reason = "the description of a macro has no counterpart: write it as a comment of the macro"
                self.read.others.append(Other("macro_description", str(entry["name"]), self._location(entry), reason))
        for section in ("data_tests", "tests"):
            for entry in self._entries(value, section):
                self._patch("test", entry)
        for section, kind in _OTHERS.items():
            for entry in self._entries(value, section):
                self.read.others.append(Other(kind, str(entry["name"]), self._location(entry)))
        self.read.exposures += [self._exposure(entry) for entry in self._entries(value, "exposures")]
        self.read.unit_tests += [self._unit_test(entry) for entry in self._entries(value, "unit_tests")]
        for entry in self._entries(value, "groups"):
            for note in notes_of("group", entry):
                self.read.others.append(Other("group", str(entry["name"]), self._location(entry), note))
            self.read.groups[str(entry["name"])] = _owner(entry)
        for entry in self._entries(value, "sources"):
            self.read.sources += self._sources(entry, folder)

    def _unit_test(self, entry: Located) -> UnitTest:
        given = entry.get("given")
        mappings = {
            key: entry[key] for key in ("expect", "overrides", "versions") if isinstance(entry.get(key), Mapping)
        }
        return UnitTest(
            name=str(entry["name"]),
            package=self._package,
            location=self._location(entry),
            model=str(entry.get("model")),
            given=tuple(each for each in given if isinstance(each, Mapping)) if isinstance(given, list) else (),
            config=self._values(config_of(entry.get("config"), self._file), self._context),
            description=self._described(entry),
            notes=notes_of("unit_test", entry),
            **mappings,
        )

    def _exposure(self, entry: Located) -> DeclaredExposure:
        depends_on = entry.get("depends_on")
        config = merge_configs([self._own_config(entry)])
        return DeclaredExposure(
            name=str(entry["name"]),
            package=self._package,
            location=self._location(entry),
            depends_on=tuple(map(str, depends_on if isinstance(depends_on, list) else ())),
            owner=_owner(entry),
            url=_text(self._value(entry, "url")),
            description=self._described(entry) or str(entry.get("label") or ""),
            config=self._values(config, self._context),
            notes=notes_of("exposure", entry),
        )

    def _entries(self, value: Located, section: str) -> Iterator[Located]:
        entries = value.get(section)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Located) and isinstance(entry.get("name"), str | int | float):
                yield entry
            else:
                line = entry.line if isinstance(entry, Located) else line_of(value, section)
                self._problem("properties", section, line, f"an entry of `{section}` has no `name`")

    def _patch(self, kind: str, entry: Located) -> None:
        properties = self._properties(kind, entry, str(entry["name"]))
        first = self.read.patches.setdefault((kind, properties.name), properties)
        if first is not properties:
            message = f"'{properties.name}' is described twice, first at {first.location}; this is not used"
            self._problem("properties", properties.name, entry.line, message)

    def _properties(self, kind: str, entry: Located, name: str) -> Properties:
        columns = entry.get("columns")
        config = config_of(entry.get("config"), self._file)
        # These may stand beside `config`, too.
        beside = {key: entry[key] for key in _BESIDE_CONFIG if entry.get(key) is not None}
        locations = {key: DbtLocation(self._file, line_of(entry, key)) for key in beside}
        config = merge_configs([Config(beside, locations), config])
        versions = entry.get("versions")
        return Properties(
            name=name,
            location=self._location(entry),
            description=self._described(entry),
            columns=tuple(self._columns(columns)),
            tests=tuple(self._tests(entry)),
            config=self._values(config, self._context),
            group=_text(config.get("group")),
            versions=tuple(self._versions(entry, versions)) if isinstance(versions, list) else (),
            latest_version=entry.get("latest_version"),
            relation=_text(entry.get("relation")),
            folder=self._folder,
            notes=notes_of(kind, entry),
        )

    def _versions(self, entry: Located, versions: list[Any]) -> Iterator[ModelVersion]:
        name = str(entry["name"])
        for each in versions:
            if not isinstance(each, Located) or each.get("v") is None:
                self._problem("properties", name, line_of(entry, "versions"), "a version has no `v`")
                continue
            for key, line in wrong_rules(each):
                self._problem("properties", name, line, f"`{key}` of the columns must be a list")
            properties = self._properties("model", whole_version(entry, each), f"{name}_v{each['v']}")
            yield ModelVersion(each["v"], _text(each.get("defined_in")), self._location(each), properties)

    def _columns(self, value: Any) -> Iterator[DeclaredColumn]:
        for entry in value if isinstance(value, list) else ():
            if not isinstance(entry, Located) or not isinstance(entry.get("name"), str):
                # `include` and `exclude` of a version's columns have been applied.
                if not (isinstance(entry, Located) and entry.keys() & {"include", "exclude"}):
                    line = entry.line if isinstance(entry, Located) else 1
                    self._problem("properties", "columns", line, "a column has no text as its `name`")
                continue
            name, quote = entry["name"], entry.get("quote") is True
            yield DeclaredColumn(
                name,
                self._described(entry),
                quote,
                tuple(self._tests(entry, name, quote)),
            )

    def _tests(self, entry: Located, column: str | None = None, quote: bool = False) -> Iterator[DataTest]:
        for key in ("tests", "data_tests"):
            declared = entry.get(key)
            if declared is not None and not isinstance(declared, list):
                self._problem("test", str(entry["name"]), line_of(entry, key), f"`{key}` must be a list")
                continue
            for item in declared or ():
                line = item.line if isinstance(item, Located) else line_of(entry, key)
                test = data_test(item, DbtLocation(self._file, line), column, quote, self._described)
                if test is None:
                    self._problem("test", str(entry["name"]), line, "a test is neither a name nor a mapping")
                else:
                    yield test

    def _sources(self, entry: Located, folder: tuple[str, ...]) -> Iterator[SourceTable]:
        source = str(entry["name"])
        tables = entry.get("tables")
        if not isinstance(tables, list):
            self._problem("source", source, entry.line, "the source has no `tables`")
            return
        for table in tables:
            if not isinstance(table, Located) or not isinstance(table.get("name"), str | int | float):
                self._problem("source", source, line_of(entry, "tables"), "a table of the source has no `name`")
                continue
            name = str(table["name"])
            fqn = (self._package, *folder, source, name)
            config = self._source_config(entry, table, fqn)
            freshness = self._inherited(entry, table, "freshness")
            schema, database = self._schema(entry, source), self._database(entry)
            yield SourceTable(
                package=self._package,
                source=source,
                name=name,
                identifier=str(self._value(table, "identifier", name)),
                schema=schema,
                database=database,
                location=self._location(table),
                description=self._described(table) or self._described(entry),
                config=config,
                columns=tuple(self._columns(table.get("columns"))),
                tests=tuple(self._tests(table)),
                tags=tuple(map(str, config.get("tags", ()))),
                freshness=freshness,
                loaded_at_field=_text(self._inherited(entry, table, "loaded_at_field")),
                notes=tuple(dict.fromkeys((*notes_of("source", entry), *notes_of("table", table)))),
            )

    def _source_config(self, entry: Located, table: Located, fqn: tuple[str, ...]) -> Config:
        """Return the configuration of a table: its package's, its own, and last the whole project's.

        Tags of folders do not add to its own, as they do elsewhere: for dbt those of the whole project alone count.
        """
        context = project_file_context(self._context)
        inner, *outer = (
            [self._values(c, context) for c in folder_configs(tree, fqn, file)] for file, tree in self._trees
        )
        config_of_table = merge_configs(
            self._values(self._own_config(level), self._context) for level in (entry, table)
        )
        last = [config for configs in outer for config in configs]
        config = merge_configs([*inner, config_of_table, *last])
        tags: Any = next((c.values["tags"] for c in (*reversed(last), config_of_table) if "tags" in c.values), [])
        return Config(
            {**config.values, "tags": tags if isinstance(tags, list) else [tags]}, config.locations, config.unknown
        )

    def _own_config(self, entry: Located) -> Config:
        beside = {key: (entry[key], line_of(entry, key)) for key in ("tags", "meta", "enabled") if key in entry}
        return merge_configs([located_config(beside, self._file), config_of(entry.get("config"), self._file)])

    def _inherited(self, entry: Located, table: Located, key: str) -> Any:
        for level in (table, entry):
            config = level.get("config")
            for holder in (level, config if isinstance(config, Mapping) else {}):
                if key in holder:
                    return holder[key]
        return None

    def _described(self, entry: Mapping[str, Any]) -> str:
        text = entry.get("description")
        if not isinstance(text, str):
            return ""
        if "{{" in text:
            try:
                text = str(render_value(text, {**self._context, "doc": self._doc}))
            except UnknownValueError as error:
                line = line_of(entry, "description")
                self._problem("docs", str(entry.get("name", "")), line, f"a description is as it stands: {error}")
        return text.strip()

    def _doc(self, *names: str) -> str:
        return self._docs(names[-1])

    def _values(self, config: Config, context: Mapping[str, Any]) -> Config:
        known, unknown = rendered_config(config, context) if config.values else (config, [])
        self.read.problems += unknown
        return known

    def _value(self, entry: Located, key: str, default: Any = None) -> Any:
        value, line = entry.get(key, default), line_of(entry, key)
        try:
            return render_value(value, self._context, DbtLocation(self._file, line))
        except UnknownValueError as error:
            self._problem("config", str(value), line, str(error))
            return value

    def _schema(self, entry: Located, source: str) -> str:
        """Return the schema of a source: of variables of the environment alone as ``${NAME}``, as catalogs have it."""
        value = entry.get("schema")
        text = refer_to_environment(value) if isinstance(value, str) and "env_var" in value else None
        return text if text is not None else escape(str(self._value(entry, "schema", source)))

    def _database(self, entry: Located) -> str | None:
        """Return the database of a source, of the environment's variables as ``${NAME}``; None for the target's."""
        value = entry.get("database")
        if isinstance(value, str) and _DATABASE_OF_TARGET.fullmatch(value):
            return None
        text = convert_setting(value) if isinstance(value, str) and "env_var" in value else None
        return text if text is not None else _text(self._value(entry, "database"))

    def _location(self, entry: Located) -> DbtLocation:
        return DbtLocation(self._file, entry.line)

    def _problem(self, kind: str, name: str, line: int, reason: str) -> None:
        self.read.problems.append(Other(kind, name, DbtLocation(self._file, line), reason))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _owner(entry: Mapping[str, Any]) -> Owner:
    owner = entry.get("owner")
    owner = owner if isinstance(owner, Mapping) else {}
    return Owner(_text(owner.get("name")), _emails(owner.get("email")))


def _emails(value: Any) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(map(str, given))


_AT_TEST = frozenset({"name", "description", "config", "arguments", "column_name", "test_name", "docs", "meta", "tags"})
_TEST_CONFIG = frozenset(
    {"severity", "where", "limit", "warn_if", "error_if", "fail_calc", "enabled", "store_failures"}
)
_TEST_CONFIG = _TEST_CONFIG | {"store_failures_as", "alias", "schema", "database", "group", "sql_header"}


def data_test(
    item: Any, location: DbtLocation, column: str | None, quote: bool, described: Callable[[Mapping[str, Any]], str]
) -> DataTest | None:
    """Return a test as it is listed at a node or a column; None for what is neither a name nor a mapping."""
    if isinstance(item, str):
        return DataTest(item, location, column=column, quote=quote)
    if not isinstance(item, Located) or not item:
        return None
    beside: Mapping[str, Any] = {}
    if isinstance(item.get("test_name"), str):
        macro, inner = item["test_name"], item
    else:
        macro = next(iter(item))
        inner, beside = item[macro], {key: value for key, value in item.items() if key != macro}
    if inner is None:
        inner = {}
    if not isinstance(inner, Mapping):
        return None
    given = {**beside, **inner}
    config = dict(given.get("config") or {}) if isinstance(given.get("config"), Mapping) else {}
    config |= {key: given[key] for key in _TEST_CONFIG if key in given}
    arguments = {key: value for key, value in given.items() if key not in _AT_TEST | _TEST_CONFIG}
    if isinstance(given.get("arguments"), Mapping):
        arguments |= given["arguments"]
    elif "arguments" in given:
        arguments["arguments"] = given["arguments"]
    column = str(given["column_name"]) if "column_name" in given else column
    tags = config.pop("tags", given.get("tags")) or []
    return DataTest(
        macro=macro,
        location=location,
        arguments=arguments,
        config=config,
        column=column,
        quote=quote,
        name=_text_of_entry(given.get("name")),
        description=described(given),
        tags=tuple(map(str, tags if isinstance(tags, list) else [tags])),
    )


def _text_of_entry(value: Any) -> str | None:
    return None if value is None else str(value)
