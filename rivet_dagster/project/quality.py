"""Checks in files of their own: next to a joint's file, or in the quality folder, as YAML or SQL.

In annotations a check has a short form, ``kind`` or ``kind(arguments)``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.cache import CompileCache
from rivet_dagster.entry_points import check_kind
from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model import convert
from rivet_dagster.model.check import ASSERTION, AUDIT, Check, parse_check, parse_quality
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.near_names import NearNames
from rivet_dagster.project.known_files import file_stem, known_checks
from rivet_dagster.project.text_file import TextError, UnreadableError, list_files, read_text, split_lines
from rivet_dagster.project.yaml_text import Located, YamlError, annotation_value, read_yaml

_OF_JOINT = re.compile(r"\.quality\.ya?ml$", re.IGNORECASE)


@dataclass(frozen=True)
class QualityFile:
    """A file of checks and the name of their joint; with ``same_folder`` it must be where that joint's file is."""

    file: str
    joint: str
    same_folder: bool = False


def quality_file_of_joint(file: str) -> QualityFile | None:
    """Return the quality file if the name of a file among the joints is that of one, else None.

    >>> quality_file_of_joint("joints/marts/orders.quality.yaml")
    QualityFile(file='joints/marts/orders.quality.yaml', joint='orders', same_folder=True)
    """
    name = posixpath.basename(file)
    return QualityFile(file, _OF_JOINT.sub("", name), same_folder=True) if _OF_JOINT.search(name) else None


def list_quality_files(root: Path, folder: str | None) -> list[QualityFile]:
    """Return the quality files in the folder, at any depth; a YAML file or a SQL file's folder has its joint's name."""
    if folder is None:
        return []
    return [
        QualityFile(file, posixpath.basename(posixpath.dirname(file)) if _is_sql(file) else file_stem(file))
        for file in list_files(root, folder, (".yaml", ".yml", ".sql"))
    ]


def joint_error(quality: QualityFile, folders: Mapping[str, set[str]], near: NearNames) -> Diagnostic | None:
    """Return the error of a quality file without a joint; ``folders`` are those of each joint's files."""
    if quality.joint not in folders:
        message = f"there is no joint '{quality.joint}' for this file to judge{near.hint(quality.joint)}"
    elif quality.same_folder and posixpath.dirname(quality.file) not in folders[quality.joint]:
        message = f"the joint '{quality.joint}' is not declared in this folder"
    else:
        return None
    return Diagnostic("RVT-302", message, None, quality.file)


def read_quality(root: Path, quality: QualityFile, cache: CompileCache) -> tuple[tuple[Check, ...], list[Diagnostic]]:
    """Return the checks of one file, and the errors in it."""
    try:
        text = read_text(root / quality.file)
    except UnreadableError as error:
        return (), [_broken("RVT-211", quality, error, error.remediation)]
    return known_checks(lambda: _read(text, quality), text, quality.file, cache)


def _read(text: str, quality: QualityFile) -> tuple[tuple[Check, ...], list[Diagnostic]]:
    if _is_sql(quality.file):
        check, wrong = quality_sql(text, quality.file, quality.joint)
        return (check,) if check else (), wrong
    try:
        value = read_yaml(text)
        if not isinstance(value, Located):
            raise YamlError("the file must hold a mapping with `assertions` and `audits`", None if value is None else 1)
    except YamlError as error:
        return (), [_broken("RVT-202", quality, error, error.remediation)]
    return parse_quality(value, Origin(quality.file, value.line, value.lines), quality.joint)


def _broken(code: str, quality: QualityFile, error: TextError, remediation: str | None) -> Diagnostic:
    return Diagnostic(code, error.message, quality.joint, quality.file, error.line, remediation)


def _is_sql(file: str) -> bool:
    return file.lower().endswith(".sql")


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


_KIND = re.compile(r"([A-Za-z_]\w*)\s*")
_KEYED = re.compile(r"([A-Za-z_]\w*)\s*=(?![=>])\s*(.*)", re.DOTALL)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def check_text(text: str, line: int) -> Any:
    """Parse a check into the mapping that it would be in YAML. Raise ValueError.

    >>> check_text("not_null(a, b, severity=warn)", 1)
    {'type': 'not_null', 'severity': 'warn', 'columns': ['a', 'b']}
    """
    if text.startswith("{"):
        return annotation_value(text, line)
    match = _KIND.match(text)
    rest = text[match.end() :] if match else ""
    if match is None or (rest and rest[0] not in "(#"):
        raise ValueError("a check is written `kind` or `kind(arguments)`")
    check = Located(line)
    check["type"] = kind = match[1]
    positional = []
    for argument in _arguments(rest) if rest.startswith("(") else ():
        keyed = _KEYED.fullmatch(argument)
        if keyed is None:
            positional.append(annotation_value(argument, line, comments=False))
        elif keyed[1] in check:
            raise ValueError(f"`{keyed[1]}` is given twice")
        else:
            check[keyed[1]] = annotation_value(keyed[2], line, comments=False)
    if positional:
        _add_positional(check, kind, positional)
    return check


def _add_positional(check: Located, name: str, values: list[Any]) -> None:
    kind = _kind(name)
    if kind is None:
        return
    key = kind.positional
    if key is None:
        raise ValueError(f"the arguments of {name} have names, like `{name}({next(iter(kind.options))}=1)`")
    if key in check:
        raise ValueError(f"`{key}` is given twice")
    if key != "columns" and len(values) > 1:
        raise ValueError(f"{name} takes one argument without a name, its `{key}`; put a text with commas in quotes")
    check[key] = values if key == "columns" else values[0]


def _kind(name: str) -> Any:
    """Return the class of a kind of check; None for an unknown one, which is reported when the check is parsed."""
    try:
        return check_kind(name)
    except RivetError:
        return None


def _arguments(text: str) -> Iterator[str]:
    """Yield the arguments in the parentheses with which ``text`` begins; commas in quotes and brackets don't count."""
    begin, open_brackets, quote, skip = 1, "", "", False
    for index, character in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = character == "\\" and quote == '"'
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in "([{":
            open_brackets += character
        elif character in ")]}":
            if _CLOSING[open_brackets[-1]] != character:
                raise ValueError(f"'{character}' closes no bracket")
            open_brackets = open_brackets[:-1]
        if not quote and (not open_brackets or (character == "," and open_brackets == "(")):
            argument = text[begin:index].strip()
            begin = index + 1
            if argument or open_brackets or text[1:index].strip():
                yield _filled(argument)
        if not open_brackets:
            break
    if open_brackets:
        raise ValueError("a quote is not closed" if quote else "a bracket is not closed")
    if not re.fullmatch(r"\s*(#.*)?", text[begin:], re.DOTALL):
        raise ValueError("something stands after the closing parenthesis")


def _filled(argument: str) -> str:
    if not argument:
        raise ValueError("an argument is empty")
    return argument
