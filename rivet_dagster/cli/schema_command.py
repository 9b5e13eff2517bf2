"""``rivet-dagster schema``: the JSON Schemas of a project's files, with the catalogs and engines that are installed."""

from __future__ import annotations

import json

from rivet_dagster.catalogs.registry import catalog_traits
from rivet_dagster.cli.joint_schema import (
    BOOLEAN,
    DRAFT,
    DURATION,
    MAPPING,
    NAME,
    TEXT,
    TEXTS,
    JsonSchema,
    by_name,
    describe,
    joint_keys,
    joint_schema,
    mapping,
    one_of,
    when,
    whole,
)
from rivet_dagster.engines.registry import engine_traits
from rivet_dagster.model.automation import CONDITIONS, RUNNING, STOPPED
from rivet_dagster.project.defaults import DEFAULT_KEYS

_STATUS = one_of(STOPPED, RUNNING)
_TIMES: dict[str, JsonSchema] = {
    "cron_schedule": describe(TEXT, "A cron expression, as in Dagster's schedules."),
    "execution_timezone": TEXT,
    "default_status": _STATUS,
}
_TARGET = describe(TEXT, "What runs: a job, or a selection of assets in Dagster's syntax.")


def manifest_schema() -> JsonSchema:
    """Return the schema of rivet.yaml.

    >>> manifest_schema()["required"]
    ['profiles', 'sources', 'joints', 'sinks']
    """
    needed = {
        "profiles": describe(TEXT, "The file of profiles."),
        "sources": describe(TEXT, "The folder of sources."),
        "joints": describe(TEXT, "The folder of SQL and Python joints."),
        "sinks": describe(TEXT, "The folder of sinks."),
    }
    keys = {
        **needed,
        "quality": describe(TEXT, "The folder of checks; default: quality, if it exists."),
        "tests": describe(TEXT, "The folder of tests; default: tests, if it exists."),
        "macros": describe(TEXT, "The folder of macros of templates; default: macros, if it exists."),
        "vars": describe(MAPPING, "Variables of templates, by name."),
        "fail_fast": describe(BOOLEAN, "Whether no group starts after one has failed; default: true."),
        "defaults": describe(_defaults(), "Keys that joints have unless their own file gives them."),
        "dagster": describe(_dagster(), "The Dagster definitions of the project."),
    }
    return {"$schema": DRAFT, "title": "A project of rivet_dagster", **mapping(keys, required=list(needed))}


def _defaults() -> JsonSchema:
    keys = {key: schema for key, schema in joint_keys().items() if key in DEFAULT_KEYS}
    folder = describe(mapping(keys), "Defaults of the joints below a folder.")
    return mapping(keys, others=folder)


def _dagster() -> JsonSchema:
    return mapping(
        {
            "key_prefix": describe(TEXTS, "What the asset keys begin with."),
            "io_manager_key": describe(TEXT, "The resource key of the project's IO manager."),
            "schedules": by_name(_schedule()),
            "observe": by_name(mapping({"sources": TEXTS, **_TIMES}, required=["sources", "cron_schedule"])),
            "sensors": by_name(_sensor()),
            "automation": {"type": "array", "items": _automation()},
            "freshness": {"type": "array", "items": _freshness()},
            "exposures": by_name(
                mapping(
                    {"depends_on": TEXTS, "owners": TEXTS, "url": TEXT, "description": TEXT}, required=["depends_on"]
                )
            ),
        }
    )


def _schedule() -> JsonSchema:
    keys = {
        "type": one_of("sweep", "upkeep"),
        "catalogs": TEXTS,
        "target": _TARGET,
        **_TIMES,
        "partition_offset": whole(0),
    }
    kinds = {"anyOf": [{"required": ["type"]}, {"required": ["target"]}]}
    return {**mapping(keys, required=["cron_schedule"]), **kinds}


def _sensor() -> JsonSchema:
    keys_of_types = {
        "files": ["source", "target"],
        "source_changed": ["sources", "target"],
        "after_success": ["monitored", "target"],
    }
    keys = {
        "type": one_of(*keys_of_types, "sweep"),
        "source": TEXT,
        "sources": TEXTS,
        "monitored": TEXT,
        "target": _TARGET,
        "default_status": _STATUS,
        "minimum_interval_seconds": whole(1),
    }
    needed = [when("type", kind, {"required": names}) for kind, names in keys_of_types.items()]
    return {**mapping(keys, required=["type"]), "allOf": needed}


def _automation() -> JsonSchema:
    keys = {"target": _TARGET, "condition": one_of(*CONDITIONS), "cron_schedule": TEXT, "timezone": TEXT}
    return mapping(keys, required=["target", "condition"])


def _freshness() -> JsonSchema:
    window = mapping({"fail_window": DURATION, "warn_window": DURATION}, required=["fail_window"])
    deadline = {"deadline_cron": TEXT, "lower_bound_delta": DURATION, "timezone": TEXT}
    cron = mapping(deadline, required=["deadline_cron", "lower_bound_delta"])
    return mapping({"target": _TARGET, "time_window": window, "cron": cron}, required=["target"])


def profiles_schema() -> JsonSchema:
    """Return the schema of a file of profiles.

    >>> profiles_schema()["additionalProperties"]["required"]
    ['engines']
    """
    profile = mapping(
        {
            "catalogs": describe(by_name(_catalog()), "Storage of tables, by name."),
            "engines": describe(
                {"anyOf": [{"type": "array", "items": _engine(("name", "type"))}, by_name(_engine(("type",)))]},
                "What runs queries.",
            ),
            "default_engine": describe(TEXT, "The engine of joints that name none."),
            "workspace": describe(TEXT, "The catalog of joints that are stored between groups."),
            "vars": describe(MAPPING, "Variables of templates; they win over those of rivet.yaml."),
            "row_values": describe(BOOLEAN, "Whether Dagster may store values of rows; default: true."),
        },
        required=["engines"],
    )
    return {"$schema": DRAFT, "title": "Profiles of rivet_dagster", **by_name(profile)}


def _catalog() -> JsonSchema:
    traits = catalog_traits()
    types = [
        when("type", type_, {"properties": {option: {} for option in sorted(traits[type_].options)}})
        for type_ in sorted(traits)
    ]
    return {"type": "object", "properties": {"type": one_of(*sorted(traits))}, "required": ["type"], "allOf": types}


def _engine(required: tuple[str, ...]) -> JsonSchema:
    traits = engine_traits()
    common: dict[str, JsonSchema] = {
        "name": NAME,
        "type": one_of(*sorted(traits)),
        "catalogs": describe(TEXTS, "The catalogs that it reaches."),
        "concurrency_limit": describe(whole(1), "How many of its groups run at once."),
        "options": MAPPING,
    }
    types = []
    for type_ in sorted(traits):
        known: dict[str, JsonSchema] = {option: {} for option in sorted(traits[type_].options)}
        types.append(when("type", type_, mapping(known | common, others=traits[type_].other_options)))
    return {"type": "object", "properties": common, "required": list(required), "allOf": types}


def project_test_schema() -> JsonSchema:
    """Return the schema of a test.

    >>> "target" in project_test_schema()["properties"]
    True
    """
    rows = _rows()
    keys = {
        "name": describe(TEXT, "Default: the file's name."),
        "target": describe(TEXT, "The joint whose rows are compared."),
        "scope": describe(one_of("joint", "graph"), "joint: its direct upstreams are given; graph: any before it are."),
        "inputs": describe(by_name(rows), "The rows of joints, by name."),
        "incremental": describe(mapping({"watermark": {}, "this": rows}), "The joint's incremental text is tested."),
        "expected": describe(rows, "The rows that the target should have."),
        "compare": one_of("unordered", "exact", "schema_only"),
        "tolerance": describe({"type": "number", "minimum": 0}, "Of floating-point numbers, absolute."),
        "options": mapping({"ignore_columns": TEXTS}),
        "checks": describe(by_name(one_of("passed", "warned", "failed")), "Verdicts of the joint's checks, by name."),
        "error": describe(TEXT, "The code of the error that is expected, or a part of its message."),
        "extends": describe(TEXT, "Another test, whose keys this one overrides."),
    }
    return {"$schema": DRAFT, "title": "A test of a project of rivet_dagster", **mapping(keys)}


def _rows() -> JsonSchema:
    rows = {"type": "array", "items": {"type": ["object", "array"]}}
    return mapping({"rows": rows, "columns": TEXTS, "file": TEXT, "schema": TEXT})


SCHEMAS = {
    "rivet": manifest_schema,
    "profiles": profiles_schema,
    "joint": joint_schema,
    "test": project_test_schema,
}


def print_schema(name: str) -> int:
    """Print the schema of a kind of file."""
    print(json.dumps(SCHEMAS[name](), indent=2))
    return 0
