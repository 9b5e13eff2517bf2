"""A joint of the new project before it is written, and the text of its file: annotations, or YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.dbt.declared import DbtLocation, DbtNode, Macro, SourceTable
from rivet_dagster.project.yaml_text import yaml_scalar

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")


_UNWRITTEN = re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def scalar(value: Any) -> str:
    """Return a value as YAML on one line.

    >>> print(scalar({"mode": "merge", "key_columns": ["id"], "note": "a: b", "no": None}))
    {mode: merge, key_columns: [id], note: "a: b", no: null}
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(str(key))}: {scalar(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(scalar, value)) + "]"
    if isinstance(value, str):
        if _BARE.fullmatch(value) and yaml_scalar(value) == value:
            return value
        text = json.dumps(value, ensure_ascii=False)
        return _UNWRITTEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return json.dumps(value) if value is not None else "null"


def annotation_lines(entries: Iterable[tuple[str, Any]], comment: str = "--") -> str:
    """Return the lines of annotations of a file whose comments begin with ``comment``; a check is a text already."""
    lines = []
    for key, value in entries:
        text = value if key in ("assert", "audit") else scalar(value)
        lines.append(f"{comment} rivet:{key}: {text}\n")
    return "".join(lines)


def yaml_lines(value: Mapping[str, Any], indent: int = 0, depth: int = 3) -> str:
    """Return a mapping as YAML, its mappings and lists of mappings down to some depth on lines of their own."""
    space = " " * indent
    lines = []
    for key, item in value.items():
        name = scalar(str(key))
        if isinstance(item, Mapping) and item and depth > 1:
            lines.append(f"{space}{name}:\n{yaml_lines(item, indent + 2, depth - 1)}")
        elif isinstance(item, list) and item and all(isinstance(each, Mapping) for each in item):
            entries = "".join(f"{space}  - {scalar(each)}\n" for each in item)
            lines.append(f"{space}{name}:\n{entries}")
        else:
            lines.append(f"{space}{name}: {scalar(item)}\n")
    return "".join(lines)


WAREHOUSE, SEEDS, SESSION = "warehouse", "seeds", "session"
"""The catalogs of the new project: published tables, seeds, and the tables that were there before."""


@dataclass
class JointDraft:
    """A joint to be: its file, its keys in order, its text, what it reads, and what is told of it.

    ``left_out`` says why there is no such joint. ``phase`` is that of its checks. ``lines`` are those that the lines of
    the query had in the model's file. ``freshness`` is a source's check of its newest row. ``macros`` are those that
    the query calls, and that these call. ``code`` is the text of a Python joint.
    """

    node: DbtNode | SourceTable
    joint: str
    path: str
    location: DbtLocation
    keys: dict[str, Any] = field(default_factory=dict)
    body: str | None = None
    refs: tuple[str, ...] = ()
    reasons: list[str] = field(default_factory=list)
    status: str | None = None
    left_out: list[str] = field(default_factory=list)
    phase: str = "assertion"
    copied: tuple[str, str | None] | None = None
    problem_location: DbtLocation | None = None
    lines: list[int] = field(default_factory=list)
    freshness: dict[str, Any] | None = None
    macros: tuple[Macro, ...] = ()
    code: str | None = None

    @property
    def is_source(self) -> bool:
        """Whether the joint is a source, or a seed, whose file has no query."""
        return self.body is None and self.code is None
