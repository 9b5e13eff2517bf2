"""A joint of the new project, before it is written: its file, keys and text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.dbt.declared import DbtNode, DbtPlace, SourceTable

WAREHOUSE, SEEDS, SESSION = "warehouse", "seeds", "session"
"""The catalogs of the new project: published tables, seeds, and the tables that were there before."""


@dataclass
class JointDraft:
    """A joint to be: its file, its keys in order, its text, what it reads, and what is told of it.

    ``left_out`` says why there is no such joint. ``phase`` is that of its checks. ``lines`` are those that the lines of
    the query had in the model's file. ``freshness`` is a source's check of its newest row.
    """

    node: DbtNode | SourceTable
    joint: str
    path: str
    place: DbtPlace
    keys: dict[str, Any] = field(default_factory=dict)
    body: str | None = None
    refs: tuple[str, ...] = ()
    reasons: list[str] = field(default_factory=list)
    status: str | None = None
    left_out: list[str] = field(default_factory=list)
    phase: str = "assertion"
    copied: tuple[str, str | None] | None = None
    problem_place: DbtPlace | None = None
    lines: list[int] = field(default_factory=list)
    freshness: dict[str, Any] | None = None
