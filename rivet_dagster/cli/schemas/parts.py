"""Parts of JSON Schemas, draft 7, which the YAML language servers of editors read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

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
