"""A joint declared in a SQL file."""

from __future__ import annotations

from rivet_dagster.project.annotated_joint import annotated_joint
from rivet_dagster.project.annotations import read_annotations
from rivet_dagster.project.draft import Draft


def sql_joint(text: str, file: str) -> Draft:
    """The joint that ``text`` declares: its annotations, then its query as written.

    >>> sql_joint("-- rivet:tags: [daily]\\nSELECT 1 AS one;\\n", "joints/one.sql").fields
    {'type': 'sql', 'sql': 'SELECT 1 AS one;', 'name': 'one', 'tags': ['daily']}
    """
    found = read_annotations(text, "--")
    defaults = {"type": "sql"} | ({"sql": found.body} if found.body else {})
    refused = {"sql": "`sql` is the file's own text, below the annotations"}
    return annotated_joint(found, file, defaults, refused, {"sql": found.body_line})
