"""Checks in files of their own: beside the joint's file, and in the quality folder."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rivet_dagster.cache import CompileCache
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.check import Check, parse_quality
from rivet_dagster.model.origin import Origin
from rivet_dagster.near_names import NearNames
from rivet_dagster.project.draft import file_stem
from rivet_dagster.project.files import files
from rivet_dagster.project.known_files import known_checks
from rivet_dagster.project.quality_sql import quality_sql
from rivet_dagster.project.text_file import TextError, UnreadableError, read_text
from rivet_dagster.project.yaml_text import Located, YamlError, read_yaml

_BESIDE = re.compile(r"\.quality\.ya?ml$", re.IGNORECASE)


@dataclass(frozen=True)
class QualityFile:
    """A file of checks and the name of their joint; with ``beside`` it must be in the folder of that joint's file."""

    file: str
    joint: str
    beside: bool = False


def beside_joint(file: str) -> QualityFile | None:
    """Return the quality file if the name of a file among the joints is that of one, else None.

    >>> beside_joint("joints/marts/orders.quality.yaml")
    QualityFile(file='joints/marts/orders.quality.yaml', joint='orders', beside=True)
    """
    name = posixpath.basename(file)
    return QualityFile(file, _BESIDE.sub("", name), beside=True) if _BESIDE.search(name) else None


def quality_folder(root: Path, folder: str | None) -> list[QualityFile]:
    """Return the quality files in the folder, at any depth; a YAML file or a SQL file's folder has its joint's name."""
    if folder is None:
        return []
    return [
        QualityFile(file, posixpath.basename(posixpath.dirname(file)) if _is_sql(file) else file_stem(file))
        for file in files(root, folder, (".yaml", ".yml", ".sql"))
    ]


def wrong_joint(quality: QualityFile, folders: Mapping[str, set[str]], near: NearNames) -> Diagnostic | None:
    """Return the error of a quality file without a joint; ``folders`` are those of each joint's files."""
    if quality.joint not in folders:
        message = f"there is no joint '{quality.joint}' for this file to judge{near.hint(quality.joint)}"
    elif quality.beside and posixpath.dirname(quality.file) not in folders[quality.joint]:
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
