"""A joint declared in a SQL file."""

from __future__ import annotations

from dataclasses import replace

from rivet_dagster.model.joint import SQL
from rivet_dagster.project.annotated_joint import annotated_joint
from rivet_dagster.project.annotations import read_annotations
from rivet_dagster.project.draft import Draft


def sql_joint(text: str, file: str) -> Draft:
    """Return the joint that ``text`` declares: its annotations, followed by its query, unchanged.

    >>> sql_joint("-- rivet:tags: [daily]\\nSELECT 1 AS one;\\n", "joints/one.sql").fields
    {'type': 'sql', 'sql': 'SELECT 1 AS one;', 'name': 'one', 'tags': ['daily']}
    """
    annotated = read_annotations(text, "--")
    defaults = {"type": "sql"} | ({"sql": annotated.body} if annotated.body else {})
    refused = {"sql": "`sql` is the file's own text, below the annotations"}
    draft = annotated_joint(annotated, file, defaults, refused, {"sql": annotated.body_line})
    if annotated.body or draft.fields["type"] != SQL:
        return draft
    wrong = draft.origin.diagnostic("RVT-207", "the file holds no query", joint=draft.name)
    fields = {key: value for key, value in draft.fields.items() if key != "type"}
    return replace(draft, fields=fields, errors=(*draft.errors, wrong))
