"""The block of ``-- rivet:key: value`` (or ``# rivet:key: value``) lines that a file begins with."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rivet_dagster.model.check import ASSERTION, AUDIT
from rivet_dagster.project.draft import JOINT_KEYS
from rivet_dagster.project.text_file import TextError, split_lines

CHECKS = {"assert": ASSERTION, "audit": AUDIT}
KEYS = (*JOINT_KEYS, *CHECKS)

_ANNOTATION = re.compile(r"rivet:\s*([A-Za-z_]\w*)\s*:(?:\s+(.*))?", re.DOTALL)
# What is meant as an annotation, right or wrong; a missed check would be no gate.
_MEANT = re.compile(rf"rivet:|(?i:rivet\s*:\s*\w+\s*:|@?rivet[\s.@-]+(?:{'|'.join(KEYS)})\s*:)")


@dataclass(frozen=True)
class Annotation:
    """One key with the text of its value, on a line counted from 1."""

    key: str
    text: str
    line: int


@dataclass(frozen=True)
class AnnotatedText:
    """A file in two: its annotations, and from ``body_line`` on the text after the last of them, blank lines stripped.

    A ``body`` of nothing but comments counts as empty. ``stray`` are annotations that stand too late to count.
    """

    annotations: tuple[Annotation, ...]
    body: str
    body_line: int
    stray: tuple[int, ...]
    errors: tuple[TextError, ...]


def read_annotations(text: str, marker: str) -> AnnotatedText:
    """The annotations of a file whose comments begin with ``marker``; blank lines and other comments may stand between.

    >>> found = read_annotations("-- rivet:eager: true\\n\\n-- by day\\nSELECT 1\\n", "--")
    >>> found.annotations, found.body, found.body_line
    ((Annotation(key='eager', text='true', line=1),), '-- by day\\nSELECT 1', 3)
    """
    lines = split_lines(text)
    found: list[Annotation] = []
    errors: list[TextError] = []
    block = _leading_comments(lines, marker)
    after = 0
    for number, line in enumerate(lines[:block], 1):
        comment = _comment(line, marker)
        match = _ANNOTATION.fullmatch(comment)
        if match:
            found.append(Annotation(match[1], (match[2] or "").strip(), number))
        elif _MEANT.match(comment):
            errors.append(TextError(f"an annotation is written `{marker} rivet:key: value`", number))
        else:
            continue
        after = number
    while after < len(lines) and not lines[after].strip():
        after += 1
    body = "".join(lines[after:]).rstrip() if block < len(lines) else ""
    below = enumerate(lines[block:], block + 1)
    stray = tuple(number for number, line in below if _MEANT.match(_comment(line, marker)))
    return AnnotatedText(tuple(found), body, after + 1, stray, tuple(errors))


def _comment(line: str, marker: str) -> str:
    """The text of a line that is a comment, else nothing."""
    line = line.strip()
    return line.removeprefix(marker).strip() if line.startswith(marker) else ""


def _leading_comments(lines: list[str], marker: str) -> int:
    for index, line in enumerate(lines):
        if line.strip() and not line.strip().startswith(marker):
            return index
    return len(lines)
