"""Properties files: what YAML says of models, seeds, snapshots, sources, macros, groups, exposures and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.dbt.declared import (
    Column,
    Config,
    DataTest,
    Other,
    Owner,
    Place,
    Properties,
    SourceTable,
    Version,
)
from rivet_dagster.dbt.reading.folder_config import config_of, folder_configs, merged
from rivet_dagster.dbt.values import UnknownValueError, rendered
from rivet_dagster.dbt.yaml_file import line_of
from rivet_dagster.project.yaml_text import Located

PATCHED = {"models": "model", "seeds": "seed", "snapshots": "snapshot", "analyses": "analysis", "macros": "macro"}
"""The sections that describe nodes, with the kinds of these."""

_OTHERS = {
    "exposures": "exposure",
    "metrics": "metric",
    "semantic_models": "semantic_model",
    "saved_queries": "saved_query",
    "unit_tests": "unit_test",
}
_KNOWN = {*PATCHED, *_OTHERS, "version", "sources", "groups", "data_tests", "tests", "functions", "anchors"}
_AT_TEST = frozenset({"name", "description", "config", "arguments", "column_name", "test_name", "docs", "meta", "tags"})
_TEST_CONFIG = frozenset(
    {"severity", "where", "limit", "warn_if", "error_if", "fail_calc", "enabled", "store_failures"}
)
_TEST_CONFIG = _TEST_CONFIG | {"store_failures_as", "alias", "schema", "database", "group", "sql_header"}


@dataclass
class FileProperties:
    """Contents of the properties files of a package."""

    patches: dict[tuple[str, str], Properties] = field(default_factory=dict)
    sources: list[SourceTable] = field(default_factory=list)
    groups: dict[str, Owner] = field(default_factory=dict)
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

    def add(self, value: Located, file: str, folder: tuple[str, ...]) -> None:
        """Read the mapping of a file; ``folder`` is where it is below the folder of its kind."""
        self._file = file
        for key in value:
            if key not in _KNOWN:
                self._problem("properties", key, line_of(value, key), f"the section '{key}' is not known")
            elif value[key] is not None and key != "version" and key != "anchors" and not isinstance(value[key], list):
                self._problem("properties", key, line_of(value, key), f"`{key}` must be a list")
        for section, kind in PATCHED.items():
            for entry in self._entries(value, section):
                self._patch(kind, entry)
        for section in ("data_tests", "tests"):
            for entry in self._entries(value, section):
                self._patch("test", entry)
        for section, kind in _OTHERS.items():
            for entry in self._entries(value, section):
                self.read.others.append(Other(kind, str(entry["name"]), self._place(entry)))
        for entry in self._entries(value, "groups"):
            owner = entry.get("owner")
            owner = owner if isinstance(owner, Mapping) else {}
            self.read.groups[str(entry["name"])] = Owner(_text(owner.get("name")), _first(owner.get("email")))
        for entry in self._entries(value, "sources"):
            self.read.sources += self._sources(entry, folder)

    def _entries(self, value: Located, section: str) -> Iterator[Located]:
        entries = value.get(section)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Located) and isinstance(entry.get("name"), str | int | float):
                yield entry
            else:
                line = entry.line if isinstance(entry, Located) else line_of(value, section)
                self._problem("properties", section, line, f"an entry of `{section}` has no `name`")

    def _patch(self, kind: str, entry: Located) -> None:
        properties = self._properties(entry, str(entry["name"]))
        first = self.read.patches.setdefault((kind, properties.name), properties)
        if first is not properties:
            message = f"'{properties.name}' is described twice, first at {first.place}; this is not used"
            self._problem("properties", properties.name, entry.line, message)

    def _properties(self, entry: Located, name: str) -> Properties:
        columns = entry.get("columns")
        config = config_of(entry.get("config"), self._file)
        # These may stand beside `config`, too.
        beside = {key: entry[key] for key in ("tags", "meta", "group", "docs", "access") if entry.get(key) is not None}
        places = {key: Place(self._file, line_of(entry, key)) for key in beside}
        config = merged([Config(beside, places), config])
        versions = entry.get("versions")
        return Properties(
            name=name,
            place=self._place(entry),
            description=self._described(entry),
            columns=tuple(self._columns(columns)),
            tests=tuple(self._tests(entry)),
            config=self._values(config),
            group=_text(config.get("group")),
            versions=tuple(self._versions(entry, versions)) if isinstance(versions, list) else (),
            latest_version=entry.get("latest_version"),
            relation=_text(entry.get("relation")),
            constraints=tuple(entry.get("constraints") or ()),
        )

    def _versions(self, entry: Located, versions: list[Any]) -> Iterator[Version]:
        for each in versions:
            if not isinstance(each, Located) or each.get("v") is None:
                self._problem("properties", str(entry["name"]), line_of(entry, "versions"), "a version has no `v`")
                continue
            whole = Located(each.line)
            whole |= {key: value for key, value in entry.items() if key != "versions"}
            whole.lines |= entry.lines
            own = each.get("columns")
            if isinstance(own, list):
                whole["columns"] = _columns_of_version(own, entry.get("columns"))
            whole |= {key: value for key, value in each.items() if key not in ("columns", "config", "v")}
            whole.lines |= each.lines
            if isinstance(entry.get("config"), Located) and isinstance(each.get("config"), Located):
                config = Located(each.line)
                config |= {**entry["config"], **each["config"]}
                config.lines |= {**entry["config"].lines, **each["config"].lines}
                whole["config"] = config
            elif each.get("config") is not None:
                whole["config"] = each["config"]
            properties = self._properties(whole, f"{entry['name']}_v{each['v']}")
            yield Version(each["v"], _text(each.get("defined_in")), self._place(each), properties)

    def _columns(self, value: Any) -> Iterator[Column]:
        for entry in value if isinstance(value, list) else ():
            if not isinstance(entry, Located) or not isinstance(entry.get("name"), str):
                # `include` and `exclude` of a version's columns have been applied.
                if not (isinstance(entry, Located) and entry.keys() & {"include", "exclude"}):
                    line = entry.line if isinstance(entry, Located) else 1
                    self._problem("properties", "columns", line, "a column has no text as its `name`")
                continue
            name, quote = entry["name"], entry.get("quote") is True
            meta = entry.get("meta")
            yield Column(
                name,
                self._described(entry),
                _text(entry.get("data_type")),
                quote,
                tuple(self._tests(entry, name, quote)),
                tuple(entry.get("constraints") or ()),
                meta if isinstance(meta, Mapping) else {},
            )

    def _tests(self, entry: Located, column: str | None = None, quote: bool = False) -> Iterator[DataTest]:
        for key in ("tests", "data_tests"):
            declared = entry.get(key)
            if declared is not None and not isinstance(declared, list):
                self._problem("test", str(entry["name"]), line_of(entry, key), f"`{key}` must be a list")
                continue
            for item in declared or ():
                test = self._test(item, line_of(entry, key), column, quote)
                if test is None:
                    line = item.line if isinstance(item, Located) else line_of(entry, key)
                    self._problem("test", str(entry["name"]), line, "a test is neither a name nor a mapping")
                else:
                    yield test

    def _test(self, item: Any, line: int, column: str | None, quote: bool) -> DataTest | None:
        if isinstance(item, str):
            return DataTest(item, Place(self._file, line), column=column, quote=quote)
        if not isinstance(item, Located) or not item:
            return None
        place = self._place(item)
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
        tags = config.pop("tags", given.get("tags")) or ()
        return DataTest(
            macro=macro,
            place=place,
            arguments=arguments,
            config=config,
            column=column,
            quote=quote,
            name=_text(given.get("name")),
            description=self._described(given),
            tags=tuple(map(str, [tags] if isinstance(tags, str) else tags)),
        )

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
            levels = [config for file, tree in self._trees for config in folder_configs(tree, fqn, file)]
            levels += [self._own_config(entry), self._own_config(table)]
            config = self._values(merged(levels))
            freshness = self._inherited(entry, table, "freshness")
            schema, database = self._value(entry.get("schema", source)), self._value(entry.get("database"))
            yield SourceTable(
                package=self._package,
                source=source,
                name=name,
                identifier=str(self._value(table.get("identifier", name))),
                schema=str(schema),
                database=_text(database),
                place=self._place(table),
                description=self._described(table) or self._described(entry),
                config=config,
                columns=tuple(self._columns(table.get("columns"))),
                tests=tuple(self._tests(table)),
                tags=tuple(map(str, config.get("tags", ()))),
                freshness=freshness,
                loaded_at_field=_text(self._inherited(entry, table, "loaded_at_field")),
            )

    def _own_config(self, entry: Located) -> Config:
        beside = {key: (entry[key], line_of(entry, key)) for key in ("tags", "meta", "enabled") if key in entry}
        values = Config({key: value for key, (value, _) in beside.items()})
        return merged([values, config_of(entry.get("config"), self._file)])

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
                text = str(rendered(text, {**self._context, "doc": self._doc}))
            except UnknownValueError as error:
                line = line_of(entry, "description")
                self._problem("docs", str(entry.get("name", "")), line, f"a description is as it stands: {error}")
        return text.strip()

    def _doc(self, *names: str) -> str:
        return self._docs(names[-1])

    def _values(self, config: Config) -> Config:
        values = {}
        for key, value in config.values.items():
            try:
                values[key] = rendered(value, self._context)
            except UnknownValueError as error:
                place = config.places.get(key) or Place(self._file)
                self.read.problems.append(Other("config", key, place, str(error)))
        return Config(values, config.places)

    def _value(self, value: Any) -> Any:
        try:
            return rendered(value, self._context)
        except UnknownValueError as error:
            self._problem("config", str(value), 1, str(error))
            return value

    def _place(self, entry: Located) -> Place:
        return Place(self._file, entry.line)

    def _problem(self, kind: str, name: str, line: int, reason: str) -> None:
        self.read.problems.append(Other(kind, name, Place(self._file, line), reason))


def _columns_of_version(own: list[Any], whole: Any) -> list[Any]:
    """Return the columns of a version: its own, and those of the model that ``include`` and ``exclude`` leave."""
    columns = [entry for entry in whole if isinstance(entry, Mapping)] if isinstance(whole, list) else []
    listed = [entry for entry in own if isinstance(entry, Mapping)]
    ruled = next((entry for entry in listed if "include" in entry or "exclude" in entry), None)
    named = [entry for entry in listed if "name" in entry]
    kept: list[Any] = []
    if ruled is not None:
        include, exclude = ruled.get("include", "all"), ruled.get("exclude") or []
        everything = include in ("all", "*")
        kept = [e for e in columns if (everything or e.get("name") in include) and e.get("name") not in exclude]
    replaced = {entry["name"] for entry in named}
    return [*(entry for entry in kept if entry.get("name") not in replaced), *named]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _first(value: Any) -> str | None:
    return _text(value[0]) if isinstance(value, list) and value else None if isinstance(value, list) else _text(value)
