"""A check in a SQL file, ``quality/<joint>/<check>.sql``: the rows of its query are violations."""

from __future__ import annotations

import re

from rivet_dagster.errors import Diagnostic, nearest
from rivet_dagster.model import convert
from rivet_dagster.model.check import ASSERTION, AUDIT, Check, parse_check
from rivet_dagster.model.origin import Origin
from rivet_dagster.project.annotation_value import annotation_value
from rivet_dagster.project.draft import file_stem
from rivet_dagster.project.text_file import split_lines

HEADERS = ("severity", "phase", "description", "tags", "remediation")
_EMPTY = "Write a query whose rows are violations, or remove the file."
_PLACE = "Write headers as `-- @severity: warn` before anything else."
_HEADER = re.compile(r"--\s*@(\w+)\s*:\s*(.*)")
# Matches lines meant as headers, right or wrong: without a missed one the check would be another.
_MEANT = re.compile(rf"--\s*@({'|'.join(HEADERS)})\b", re.IGNORECASE)


def quality_sql(text: str, file: str, joint: str) -> tuple[Check | None, list[Diagnostic]]:
    """Return the check of a file, which has the file's name, and the errors in it.

    It begins with any of ``-- @severity: warn``, ``-- @phase: audit``, ``-- @description:``, ``-- @tags: a, b`` and
    ``-- @remediation:``. Without a phase it is an assertion.
    """
    if not text.strip():
        return None, [Diagnostic("RVT-209", "the file is empty", joint, file, remediation=_EMPTY)]
    headers, errors = _headers(text, file, joint)
    phase = ASSERTION
    raw: dict[str, object] = {"type": "custom", "name": file_stem(file), "sql": text}
    for key, (value, line) in headers.items():
        try:
            if key == "phase":
                phase = _phase(value)
            else:
                raw[key] = _tags(value, line) if key == "tags" else value
        except ValueError as error:
            errors.append(Diagnostic("RVT-204", f"'@{key}': {error}", joint, file, line))
    lines = {key: line for key, (_, line) in headers.items()}
    check, wrong = parse_check(raw, phase, Origin(file, 1, {**lines, "sql": 1}), joint)
    return check if not errors else None, [*errors, *wrong]


def _headers(text: str, file: str, joint: str) -> tuple[dict[str, tuple[str, int]], list[Diagnostic]]:
    """Return the headers by key, each with its line, and the errors in them."""
    headers: dict[str, tuple[str, int]] = {}
    errors: list[Diagnostic] = []
    in_query = False
    for number, line in enumerate(split_lines(text), 1):
        stripped = line.strip()
        in_query = in_query or (bool(stripped) and not stripped.startswith("--"))
        match, meant = _HEADER.match(stripped), _MEANT.match(stripped)
        message = None
        if meant is not None and in_query:
            message = f"'@{meant[1].lower()}' stands after the query has begun"
        elif meant is not None and match is None:
            message = f"a header is written `-- @{meant[1].lower()}: value`"
        elif match is None or in_query:
            continue
        elif match[1] not in HEADERS:
            unknown = f"unknown header '@{match[1]}'{nearest(match[1], HEADERS)}"
            errors.append(Diagnostic("RVT-203", unknown, joint, file, number))
        elif match[1] in headers:
            message = f"'@{match[1]}' stands here twice"
        else:
            headers[match[1]] = match[2].strip(), number
        if message is not None:
            errors.append(Diagnostic("RVT-208", message, joint, file, number, _PLACE))
    return headers, errors


_phase = convert.one_of(ASSERTION, AUDIT)


def _tags(text: str, line: int) -> object:
    if text.startswith(("[", "{")):
        return annotation_value(text, line)
    return [tag.strip() for tag in text.split(",") if tag.strip()]
