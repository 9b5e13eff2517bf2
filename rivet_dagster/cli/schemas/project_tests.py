"""The JSON Schema of a test of a project, each document of a `*.test.yaml`."""

from __future__ import annotations

from rivet_dagster.cli.schemas.parts import DRAFT, TEXT, TEXTS, JsonSchema, by_name, describe, mapping, one_of


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
