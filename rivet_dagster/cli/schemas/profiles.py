"""The JSON Schema of profiles.yaml, with the types of catalogs and engines that are installed."""

from __future__ import annotations

from rivet_dagster.catalogs.registry import catalog_traits
from rivet_dagster.cli.schemas.parts import (
    BOOLEAN,
    DRAFT,
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
from rivet_dagster.engines.registry import engine_traits


def profiles_schema() -> JsonSchema:
    """Return the schema of a file of profiles.

    >>> profiles_schema()["additionalProperties"]["required"]
    ['engines']
    """
    profile = mapping(
        {
            "catalogs": described(by_name(_catalog()), "Storage of tables, by name."),
            "engines": described(
                {"anyOf": [{"type": "array", "items": _engine(("name", "type"))}, by_name(_engine(("type",)))]},
                "What runs queries.",
            ),
            "default_engine": described(TEXT, "The engine of joints that name none."),
            "workspace": described(TEXT, "The catalog of joints that are stored between groups."),
            "vars": described(MAPPING, "Variables of templates; they win over those of rivet.yaml."),
            "row_values": described(BOOLEAN, "Whether Dagster may store values of rows; default: true."),
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
    own: dict[str, JsonSchema] = {
        "name": NAME,
        "type": one_of(*sorted(traits)),
        "catalogs": described(TEXTS, "The catalogs that it reaches."),
        "concurrency_limit": described(whole(1), "How many of its groups run at once."),
        "options": MAPPING,
    }
    types = []
    for type_ in sorted(traits):
        known: dict[str, JsonSchema] = {option: {} for option in sorted(traits[type_].options)}
        types.append(when("type", type_, mapping(known | own, others=traits[type_].other_options)))
    return {"type": "object", "properties": own, "required": list(required), "allOf": types}
