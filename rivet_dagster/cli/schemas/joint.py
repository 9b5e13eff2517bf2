"""The JSON Schema of a joint in a YAML file, and of files of checks."""

from __future__ import annotations

from rivet_dagster.checks.registry import check_kinds
from rivet_dagster.cli.schemas.parts import (
    BOOLEAN,
    DRAFT,
    DURATION,
    MAPPING,
    NAME,
    TEXT,
    TEXTS,
    JsonSchema,
    by_name,
    described,
    mapping,
    one_of,
    when,
    whole,
)
from rivet_dagster.model.joint import KEYS, PYTHON, REQUIRED, SINK, SOURCE, SQL
from rivet_dagster.model.write_strategy import ALIASES, MODES, SPELLINGS

COLUMNS: JsonSchema = {
    "anyOf": [by_name(TEXT), {"type": "array", "minItems": 1, "items": {"anyOf": [TEXT, by_name(TEXT)]}}]
}
TAGS: JsonSchema = {
    "anyOf": [{"type": "array", "items": TEXT}, by_name({"type": ["string", "number", "boolean", "null"]})]
}

STEP_OPTIONS: dict[str, JsonSchema] = {
    "retries": described(whole(0), "How often a step is tried again after a transient error."),
    "retry_delay": described(DURATION, "The delay before each retry."),
    "timeout": described(DURATION, "The limit of one attempt."),
    "pool": described(TEXT, "The step's Dagster pool, instead of the engine's."),
    "config": described(MAPPING, "Settings of the engine for the sessions of the group."),
}


def joint_schema() -> JsonSchema:
    """Return the schema of a YAML file that declares a joint.

    >>> sorted(joint_schema()["properties"])[:4]
    ['catalog', 'columns', 'description', 'eager']
    """
    keys = joint_keys()
    by_type = [when("type", type_, _of_type(type_)) for type_ in KEYS]
    schema = mapping(keys, required=["type"])
    return {"$schema": DRAFT, "title": "A joint of rivet_dagster", **schema, "allOf": by_type}


def quality_schema() -> JsonSchema:
    """Return the schema of a file of checks."""
    return {"$schema": DRAFT, "title": "Checks of a joint of rivet_dagster", **quality()}


def _of_type(type_: str) -> JsonSchema:
    """Return the keys that a joint of a type has, and needs."""
    refused = dict.fromkeys(sorted(joint_keys().keys() - KEYS[type_]), False)
    return {"properties": refused, "required": list(REQUIRED[type_])}


def joint_keys() -> dict[str, JsonSchema]:
    """Return the schemas of a joint's keys."""
    return {
        "name": described(NAME, "The joint's name; default: the file's."),
        "type": described(one_of(SOURCE, SQL, PYTHON, SINK), "What the joint is."),
        "sql": described(TEXT, "The query, one SELECT."),
        "columns": described(COLUMNS, "Of a source: the columns to read, as names or alias: expression."),
        "filter": described(TEXT, "Of a source: the condition of the rows to read."),
        "limit": described(whole(0), "Of a source: the number of rows to read."),
        "catalog": described(
            TEXT, "The catalog of the profile: of a source's table, or in which the joint is published."
        ),
        "table": described(TEXT, "The table in its catalog; default for SQL and Python: the joint's name."),
        "engine": described(TEXT, "The engine of the profile that runs it; default: the profile's default engine."),
        "eager": described(BOOLEAN, "Whether it is stored, and not fused into the query of its reader."),
        "upstream": described(TEXTS, "The joints that it reads; of SQL they follow from the query."),
        "tags": described(TAGS, "Tags in Dagster."),
        "description": described(TEXT, "The description in Dagster."),
        "owners": described(TEXTS, "Owners in Dagster: e-mail addresses, or team:NAME."),
        "group": described(TEXT, "The asset group in Dagster; default: the folder."),
        "write_strategy": described(write_strategy(), "How a run changes the published table; default: replace."),
        "function": described(TEXT, "The Python function, as module:function."),
        "quality": described(quality(), "Checks: of the batch before it is published, and of the whole table."),
        "partitions": described(partitions(), "The partitions of the table in Dagster."),
        "on_error": described(on_error(), "What to do with rows that cannot be evaluated."),
        "retention": described(one_of("latest", "run"), "How long a stored joint is kept."),
        "row_values": described(BOOLEAN, "Whether Dagster may store values of its rows."),
        "options": described(mapping(STEP_OPTIONS, others=True), "Options of the step, and of the table's storage."),
    }


def write_strategy() -> JsonSchema:
    """Return the schema of a write strategy: a mode, or a mapping with one."""
    modes = [*MODES, *ALIASES]
    options = sorted({option for needed, optional in MODES.values() for option in (*sum(needed, ()), *optional)})
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
            "assertions": described(checks, "Judge the rows that the joint has just computed."),
            "audits": described(checks, "Judge the whole table as it would be after publishing."),
        }
    )


def check() -> JsonSchema:
    """Return the schema of a check: the options of its kind, and those that all kinds have."""
    kinds = check_kinds()
    own: dict[str, JsonSchema] = {option: {} for kind in kinds.values() for option in kind.options}
    common = {
        "type": one_of(*sorted(kinds)),
        "name": TEXT,
        "severity": described(one_of("error", "warn"), "error: nothing is published; warn: a warning in Dagster."),
        "description": TEXT,
        "remediation": TEXT,
        "tags": TAGS,
        "timeout": DURATION,
        "samples": described({"type": "integer", "minimum": 0, "maximum": 100}, "Violating rows that a result shows."),
    }
    by_kind = [
        when("type", name, {"properties": dict.fromkeys(sorted(own.keys() - kind.options.keys()), False)})
        for name, kind in sorted(kinds.items())
    ]
    return {**mapping(own | common, required=["type"]), "allOf": by_kind}


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
    age = described({"type": "string", "pattern": "^[0-9]+d$"}, "Errors found more days ago are removed, as 90d.")
    known = {"mode": mode, "max_errors": limit, "errors_table": TEXT, "max_age": age}
    return {"anyOf": [mode, mapping(known, required=["mode"])]}
