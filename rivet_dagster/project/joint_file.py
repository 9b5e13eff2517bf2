"""The joint of a file: of SQL and Python files with annotations (``-- rivet:key: value``), and of YAML files."""

from __future__ import annotations

import io
import posixpath
import re
import tokenize
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rivet_dagster.errors import Diagnostic, nearest
from rivet_dagster.model.check import ASSERTION, AUDIT, Check, parse_check
from rivet_dagster.model.joint import KEYS, SQL
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.project.known_files import Draft, broken_draft, declared_name, inline_checks
from rivet_dagster.project.quality import check_text
from rivet_dagster.project.text_file import TextError, split_lines
from rivet_dagster.project.yaml_text import Located, YamlError, annotation_value, nested_lines, plain, read_yaml

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


def annotated_joint(
    annotated: AnnotatedText,
    file: str,
    defaults: Mapping[str, Any],
    refused: Mapping[str, str],
    lines: Mapping[str, int],
) -> Draft:
    """Return the draft of an annotated file.

    ``defaults`` are the values of keys without an annotation, ``lines`` the lines of values that are not annotations,
    and ``refused`` the keys that an annotation must not have, each with the reason.
    """
    reader = _Reader(annotated, file, lines)
    for annotation in annotated.annotations:
        if annotation.key in refused:
            reader.wrong("RVT-206", refused[annotation.key], annotation.line)
        elif annotation.key in CHECKS:
            reader.check(annotation)
        else:
            reader.key(annotation)
    for error in annotated.errors:
        reader.wrong("RVT-208", error.message, error.line)
    for line in annotated.stray:
        reader.wrong("RVT-208", "an annotation stands below the beginning of the file's own text", line)
    checks, wrong = inline_checks(reader.fields.pop("quality", None), reader.origin, reader.name)
    fields = {**defaults, "name": reader.name} | {k: v for k, v in reader.fields.items() if v is not None}
    return Draft(reader.name, reader.origin, fields, (*checks, *reader.checks), (*reader.errors, *wrong))


class _Reader:
    """Reads one annotation after another; first the joint's name, which is part of every message."""

    def __init__(self, annotated: AnnotatedText, file: str, lines: Mapping[str, int]) -> None:
        keys = {annotation.key: annotation.line for annotation in reversed(annotated.annotations)}
        self.origin = Origin(file, 1, keys | dict(lines))
        self.name = declared_name(_name(annotated), file)
        self.fields: dict[str, Any] = {}
        self.checks: list[Check] = []
        self.errors: list[Diagnostic] = []

    def wrong(self, code: str, message: str, line: int | None) -> None:
        self.errors.append(Diagnostic(code, message, self.name, self.origin.file, line))

    def key(self, annotation: Annotation) -> None:
        key, line = annotation.key, annotation.line
        if key not in ANNOTATION_KEYS:
            self.wrong("RVT-203", f"unknown key '{key}'{nearest(key, ANNOTATION_KEYS)}", line)
        elif self.origin.lines[key] < line:
            self.wrong("RVT-208", f"`{key}` is repeated, first given on line {self.origin.lines[key]}", line)
        else:
            try:
                value = annotation_value(annotation.text, line)
            except ValueError as error:
                self.wrong("RVT-208", f"`{key}`: {error}", line)
                return
            self.fields[key] = value if key == "quality" else plain(value)

    def check(self, annotation: Annotation) -> None:
        origin = Origin(self.origin.file, annotation.line)
        try:
            raw = check_text(annotation.text, annotation.line)
        except YamlError as error:
            self.wrong("RVT-209", f"the check cannot be read: {error}", annotation.line)
        except ValueError as error:
            self.wrong("RVT-209", str(error), annotation.line)
        else:
            check, errors = parse_check(raw, CHECKS[annotation.key], origin, self.name)
            self.checks += [check] if check else []
            self.errors += errors


def _name(annotated: AnnotatedText) -> Any:
    for annotation in annotated.annotations:
        if annotation.key == "name":
            with suppress(ValueError):
                return annotation_value(annotation.text, annotation.line)
    return None


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


FUNCTION = "transform"


def python_joint(text: str, file: str) -> Draft:
    """Return the joint that ``text`` declares; its function is ``transform`` of this file unless it names another.

    >>> python_joint("# rivet:tags: [daily]\\ndef transform(orders): ...", "joints/scores.py").fields
    {'type': 'python', 'function': 'joints.scores:transform', 'name': 'scores', 'tags': ['daily']}
    """
    annotated = read_annotations(text, "#")
    annotated = replace(annotated, stray=_comments(text, annotated)) if annotated.stray else annotated
    defaults = {"type": "python", "function": f"{module_of(file)}:{FUNCTION}"}
    draft = annotated_joint(annotated, file, defaults, {}, {})
    if draft.fields["type"] == "python":
        return draft
    message = "`type` of a Python file can only be python"
    wrong = draft.origin.diagnostic("RVT-204", message, joint=draft.name, key="type")
    return replace(draft, fields={**draft.fields, "type": "python"}, errors=(*draft.errors, wrong))


def module_of(file: str) -> str:
    """Return the dotted module path of a Python file of the project.

    >>> module_of("joints/marts/scores.py")
    'joints.marts.scores'
    """
    return posixpath.splitext(file)[0].replace("/", ".")


def _comments(text: str, annotated: AnnotatedText) -> tuple[int, ...]:
    """Return the lines of stray annotations that are comments, not lines of a string."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return annotated.stray
    lines = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    return tuple(line for line in annotated.stray if line in lines)


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
