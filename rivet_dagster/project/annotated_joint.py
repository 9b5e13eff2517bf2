"""The common part of SQL and Python files: a joint whose keys are annotations."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rivet_dagster.errors import Diagnostic, nearest
from rivet_dagster.model.check import Check, parse_check
from rivet_dagster.model.origin import Origin
from rivet_dagster.project.annotation_value import annotation_value
from rivet_dagster.project.annotations import ANNOTATION_KEYS, CHECKS, AnnotatedText, Annotation
from rivet_dagster.project.check_text import check_text
from rivet_dagster.project.draft import Draft, declared_name, inline_checks
from rivet_dagster.project.yaml_text import YamlError, plain


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
