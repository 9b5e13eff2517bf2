"""A check in a SQL file of its own, ``quality/<joint>/<check>.sql``: the rows of its query are violations."""

from __future__ import annotations

import re

from rivet_dagster.errors import Diagnostic, nearest
from rivet_dagster.model.check import ASSERTION, Check, parse_check
from rivet_dagster.model.origin import Origin
from rivet_dagster.project.annotation_value import annotation_value
from rivet_dagster.project.draft import file_stem
from rivet_dagster.project.text_file import split_lines

HEADERS = ("severity", "description", "tags", "remediation")
_EMPTY = "Write a query whose rows are violations, or remove the file."
_HEADER = re.compile(r"--\s*@(\w+)\s*:\s*(.*)")


def quality_sql(text: str, file: str, joint: str) -> tuple[Check | None, list[Diagnostic]]:
    """The check of a file, named after it, and what is wrong with it.

    It begins with any of ``-- @severity: warn``, ``-- @description:``, ``-- @tags: a, b`` and ``-- @remediation:``.
    """
    raw: dict[str, object] = {"type": "custom", "name": file_stem(file), "sql": text}
    lines = {"sql": 1}
    errors: list[Diagnostic] = []
    for number, line in enumerate(split_lines(text), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("--"):
            break
        match = _HEADER.match(stripped)
        if match is None:
            continue
        key, value = match[1], match[2].strip()
        if key not in HEADERS:
            message = f"unknown header '@{key}'{nearest(key, HEADERS)}"
            errors.append(Diagnostic("RVT-203", message, joint, file, number))
        elif key in raw:
            errors.append(Diagnostic("RVT-208", f"'@{key}' stands here twice", joint, file, number))
        else:
            try:
                raw[key] = _value(key, value, number)
                lines[key] = number
            except ValueError as error:
                errors.append(Diagnostic("RVT-204", f"'@{key}': {error}", joint, file, number))
    if not text.strip():
        return None, [Diagnostic("RVT-209", "the file is empty", joint, file, remediation=_EMPTY)]
    check, wrong = parse_check(raw, ASSERTION, Origin(file, 1, lines), joint)
    return check if not errors else None, [*errors, *wrong]


def _value(key: str, text: str, line: int) -> object:
    if key == "tags" and not text.startswith(("[", "{")):
        return [tag.strip() for tag in text.split(",") if tag.strip()]
    return annotation_value(text, line) if key == "tags" else text
