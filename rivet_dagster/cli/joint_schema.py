"""The JSON Schema of a joint in a YAML file and of files of checks, draft 7, which the YAML servers of editors read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rivet_dagster.checks.contract import check_kinds
from rivet_dagster.model import convert
from rivet_dagster.model.convert import Choice, Whole
from rivet_dagster.model.joint import KEYS, TYPES, JointKey, required_keys
from rivet_dagster.model.write_strategy import ALIASES, MODES, SPELLINGS

JsonSchema = dict[str, Any]

DRAFT = "http://json-schema.org/draft-07/schema#"

TEXT: JsonSchema = {"type": "string", "minLength": 1}
BOOLEAN: JsonSchema = {"type": "boolean"}
MAPPING: JsonSchema = {"type": "object"}
NAME: JsonSchema = {"type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": 128}
TEXTS: JsonSchema = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
DURATION: JsonSchema = {
    "description": "A duration: seconds, or a text like 30s, 5m, 2h, 1d.",
    "anyOf": [{"type": "number", "minimum": 0}, TEXT],
}


def whole(least: int) -> JsonSchema:
    """Return the schema of a whole number of at least ``least``."""
    return {"type": "integer", "minimum": least}


def one_of(*values: str) -> JsonSchema:
    """Return the schema of some texts."""
    return {"enum": list(values)}


def mapping(
    properties: Mapping[str, JsonSchema], required: Collection[str] = (), others: bool | JsonSchema = False
) -> JsonSchema:
    """Return the schema of a mapping; keys that are not among ``properties`` are errors, unless there may be others.

    >>> mapping({"name": TEXT}, required=["name"])["additionalProperties"]
    False
    """
    schema = {"type": "object", "properties": dict(properties), "additionalProperties": others}
    return schema | ({"required": list(required)} if required else {})


def by_name(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a mapping from names to values of one schema."""
    return {"type": "object", "additionalProperties": schema}


def describe(schema: JsonSchema, text: str) -> JsonSchema:
    """Return the schema with the text that an editor shows."""
    return {**schema, "description": text}


def when(key: str, value: str, then: JsonSchema) -> JsonSchema:
    """Return the schema of what holds where ``key`` has a value."""
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": then}


COLUMNS: JsonSchema = {
    "anyOf": [by_name(TEXT), {"type": "array", "minItems": 1, "items": {"anyOf": [TEXT, by_name(TEXT)]}}]
}
TAGS: JsonSchema = {
    "anyOf": [{"type": "array", "items": TEXT}, by_name({"type": ["string", "number", "boolean", "null"]})]
}

STEP_OPTIONS: dict[str, JsonSchema] = {
    "retries": describe(whole(0), "How often a step is tried again after a transient error."),
    "retry_delay": describe(DURATION, "The delay before each retry."),
    "timeout": describe(DURATION, "The limit of one attempt."),
    "pool": describe(TEXT, "The step's Dagster pool, instead of the engine's."),
    "config": describe(MAPPING, "Settings of the engine for the sessions of the group."),
}


def joint_schema() -> JsonSchema:
    """Return the schema of a YAML file that declares a joint.

    >>> sorted(joint_schema()["properties"])[:4]
    ['adopt', 'catalog', 'columns', 'description']
    """
    by_type = [when("type", type_, _of_type(type_)) for type_ in TYPES]
    schema = mapping(joint_keys(), required=["type"])
    return {"$schema": DRAFT, "title": "A joint of rivet_dagster", **schema, "allOf": by_type}


def quality_schema() -> JsonSchema:
    """Return the schema of a file of checks."""
    return {"$schema": DRAFT, "title": "Checks of a joint of rivet_dagster", **quality()}


def _of_type(type_: str) -> JsonSchema:
    """Return the keys that a joint of a type has, and needs."""
    refused = sorted(name for name, key in KEYS.items() if type_ not in key.types)
    return {"properties": dict.fromkeys(refused, False), "required": list(required_keys(type_))}


def joint_keys() -> dict[str, JsonSchema]:
    """Return the schemas of a joint's keys."""
    return {name: describe(_value(name, key), key.description) for name, key in KEYS.items()}


def _value(name: str, key: JointKey) -> JsonSchema:
    """Return the schema of a key's values: that of its converter, for values that have no keys of their own."""
    if isinstance(key.convert, Choice):
        return one_of(*key.convert.allowed)
    if isinstance(key.convert, Whole):
        return whole(key.convert.least)
    return _NESTED[name]() if name in _NESTED else _CONVERTED[key.convert]


def write_strategy() -> JsonSchema:
    """Return the schema of a write strategy: a mode, or a mapping with one."""
    modes = [*MODES, *ALIASES]
    options = sorted({option for mode in MODES.values() for option in mode.options})
    known = {
        "mode": one_of(*modes),
        "on_empty": one_of("write", "skip", "fail"),
        **{option: _STRATEGY_OPTIONS.get(option, TEXT) for option in (*options, *SPELLINGS)},
    }
    return {"anyOf": [one_of(*modes), mapping(known, required=["mode"])]}


_STRATEGY_OPTIONS: dict[str, JsonSchema] = {
    "key_columns": TEXTS,
    "unique_key": TEXTS,
    "partition_by": TEXTS,
    "track_columns": TEXTS,
    "order_by": TEXTS,
    "close_missing": BOOLEAN,
    "lookback": {"anyOf": [{"type": "number"}, TEXT]},
    "on_schema_change": one_of("fail", "add", "ignore"),
}


def quality() -> JsonSchema:
    """Return the schema of the key ``quality``."""
    checks = {"type": "array", "items": check()}
    return mapping(
        {
            "assertions": describe(checks, "Judge the rows that the joint has just computed."),
            "audits": describe(checks, "Judge the whole table as it would be after publishing."),
        }
    )


def check() -> JsonSchema:
    """Return the schema of a check: the options of its kind, and those that all kinds have."""
    kinds = check_kinds()
    options: dict[str, JsonSchema] = {option: {} for kind in kinds.values() for option in kind.options}
    common = {
        "type": one_of(*sorted(kinds)),
        "name": TEXT,
        "severity": describe(one_of("error", "warn"), "error: nothing is published; warn: a warning in Dagster."),
        "description": TEXT,
        "remediation": TEXT,
        "tags": TAGS,
        "timeout": DURATION,
        "samples": describe({"type": "integer", "minimum": 0, "maximum": 100}, "Violating rows that a result shows."),
    }
    by_kind = [
        when("type", name, {"properties": dict.fromkeys(sorted(options.keys() - kind.options.keys()), False)})
        for name, kind in sorted(kinds.items())
    ]
    return {**mapping(options | common, required=["type"]), "allOf": by_kind}


def partitions() -> JsonSchema:
    """Return the schema of partitions."""
    time = {"type": "string"}
    known = {
        "type": one_of("hourly", "daily", "weekly", "monthly", "static"),
        "column": TEXT,
        "start": time,
        "end": time,
        "timezone": TEXT,
        "values": {"type": "array", "minItems": 1},
    }
    return mapping(known, required=["type", "column"])


def on_error() -> JsonSchema:
    """Return the schema of ``on_error``: a mode, or a mapping with one."""
    mode = one_of("fail", "quarantine")
    limit = {"anyOf": [whole(0), {"type": "string", "pattern": "%$"}]}
    age = describe({"type": "string", "pattern": "^[0-9]+d$"}, "Errors found more days ago are removed, as 90d.")
    known = {"mode": mode, "max_errors": limit, "errors_table": TEXT, "max_age": age}
    return {"anyOf": [mode, mapping(known, required=["mode"])]}


def options() -> JsonSchema:
    """Return the schema of ``options``: those of the step, and any of the table's storage."""
    return mapping(STEP_OPTIONS, others=True)


_NESTED: dict[str, Callable[[], JsonSchema]] = {
    "write_strategy": write_strategy,
    "quality": quality,
    "partitions": partitions,
    "on_error": on_error,
    "options": options,
}

_CONVERTED: dict[Callable[[Any], Any], JsonSchema] = {
    convert.name: NAME,
    convert.text: TEXT,
    convert.texts: TEXTS,
    convert.boolean: BOOLEAN,
    convert.columns: COLUMNS,
    convert.tags: TAGS,
}
"""The schemas of what the model's converters take."""
