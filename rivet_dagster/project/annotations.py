"""The block of ``-- rivet:key: value`` (or ``# rivet:key: value``) lines at the beginning of a file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rivet_dagster.model.check import ASSERTION, AUDIT
from rivet_dagster.model.joint import KEYS
from rivet_dagster.project.text_file import TextError, split_lines

CHECKS = {"assert": ASSERTION, "audit": AUDIT}
ANNOTATION_KEYS = (*KEYS, *CHECKS)

_ANNOTATION = re.compile(r"rivet:\s*([A-Za-z_]\w*)\s*:(?:\s+(.*))?", re.DOTALL)
_RIVET = re.compile("rivet", re.IGNORECASE)
# Matches lines meant as annotations, right or wrong: a check that is missed would not guard anything.
_MEANT = re.compile(rf"rivet:|(?i:rivet\s*:\s*\w+\s*:|@?rivet[\s.@-]+(?:{'|'.join(ANNOTATION_KEYS)})\s*:)")


@dataclass(frozen=True)
class Annotation:
    """A key with the text of its value, and its line, counted from 1."""

    key: str
    text: str
    line: int


@dataclass(frozen=True)
class AnnotatedText:
    """A file's annotations, and the text after the last of them from ``body_line`` on, without blank lines around it.

    A ``body`` of nothing but comments is empty. ``stray`` are the lines of annotations below the block, which is an
    error.
    """

    annotations: tuple[Annotation, ...]
    body: str
    body_line: int
    stray: tuple[int, ...]
    errors: tuple[TextError, ...]


def read_annotations(text: str, marker: str) -> AnnotatedText:
    """Read the annotations of a file whose comments begin with ``marker``; blank lines and comments may be between.

    >>> annotated = read_annotations("-- rivet:eager: true\\n\\n-- by day\\nSELECT 1\\n", "--")
    >>> annotated.annotations, annotated.body, annotated.body_line
    ((Annotation(key='eager', text='true', line=1),), '-- by day\\nSELECT 1', 3)
    """
    lines = split_lines(text)
    annotations: list[Annotation] = []
    errors: list[TextError] = []
    block = _leading_comments(lines, marker)
    after = 0
    for number, line in enumerate(lines[:block], 1):
        comment = _comment(line, marker)
        match = _ANNOTATION.fullmatch(comment)
        if match:
            annotations.append(Annotation(match[1], (match[2] or "").strip(), number))
        elif _MEANT.match(comment):
            errors.append(TextError(f"an annotation is written `{marker} rivet:key: value`", number))
        else:
            continue
        after = number
    while after < len(lines) and not lines[after].strip():
        after += 1
    body = "".join(lines[after:]).rstrip() if block < len(lines) else ""
    below = enumerate(lines[block:], block + 1) if _RIVET.search(body) else ()
    stray = tuple(number for number, line in below if _MEANT.match(_comment(line, marker)))
    return AnnotatedText(tuple(annotations), body, after + 1, stray, tuple(errors))


def _comment(line: str, marker: str) -> str:
    """Return the text of a line that is a comment, else an empty text."""
    line = line.strip()
    return line.removeprefix(marker).strip() if line.startswith(marker) else ""


def _leading_comments(lines: list[str], marker: str) -> int:
    for index, line in enumerate(lines):
        if line.strip() and not line.strip().startswith(marker):
            return index
    return len(lines)
