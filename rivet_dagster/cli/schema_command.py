"""``rivet-dagster schema``: the JSON Schemas of a project's files."""

from __future__ import annotations

import json

from rivet_dagster.cli.schemas.joint import joint_schema
from rivet_dagster.cli.schemas.settings import manifest_schema, profiles_schema, project_test_schema

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
