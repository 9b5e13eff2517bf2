"""A joint declared in a YAML file."""

from __future__ import annotations

from rivet_dagster.errors import Diagnostic, nearest
from rivet_dagster.model.joint import KEYS
from rivet_dagster.model.origin import Origin
from rivet_dagster.project.draft import Draft, broken_draft, declared_name, inline_checks
from rivet_dagster.project.yaml_text import Located, YamlError, nested_lines, plain, read_yaml


def yaml_joint(text: str, file: str) -> Draft:
    """Return the joint that ``text`` declares; its name is the file's unless it declares another.

    >>> yaml_joint("type: sql\\nsql: SELECT 1 AS one", "joints/one.yaml").fields
    {'name': 'one', 'type': 'sql', 'sql': 'SELECT 1 AS one'}
    """
    try:
        value = read_yaml(text)
        if not isinstance(value, Located):
            raise YamlError("the file must hold a mapping with the joint's keys", None if value is None else 1)
    except YamlError as error:
        return broken_draft(file, "RVT-202", error, error.remediation)
    lines = nested_lines(value) | value.lines | _starts_of_sql(value)
    origin = Origin(file, value.line, lines)
    name = declared_name(value.get("name"), file)
    errors: list[Diagnostic] = []
    for key in value:
        if key not in KEYS:
            message = f"unknown key '{key}'{nearest(key, KEYS)}"
            errors.append(origin.diagnostic("RVT-203", message, joint=name, key=key))
    fields = {"name": name} | {k: plain(v) for k, v in value.items() if k in KEYS and v is not None}
    if "type" not in fields:
        errors.append(origin.diagnostic("RVT-205", "a joint in a YAML file needs `type`", joint=name, key="type"))
    checks, wrong = inline_checks(value.get("quality"), origin, name)
    fields.pop("quality", None)
    return Draft(name, origin, fields, checks, (*errors, *wrong))


def _starts_of_sql(value: Located) -> dict[str, int]:
    """Return the lines on which a query, the filter and the expressions of columns begin."""
    columns = value.get("columns")
    entries = [entry for entry in (columns if isinstance(columns, list) else [columns]) if isinstance(entry, Located)]
    starts = {f"columns.{alias}": line for entry in entries for alias, line in entry.starts.items()}
    return starts | {key: value.starts[key] for key in ("sql", "filter") if key in value}
