"""Drafts that an earlier compilation read already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from rivet_dagster.model.check import Check
from rivet_dagster.model.memo import Memo
from rivet_dagster.model.origin import Origin
from rivet_dagster.project.draft import Draft


def known_draft(read: Callable[[str, str], Draft], text: str, file: str, memo: Memo) -> Draft:
    """What ``read`` makes of the text of ``file``; a draft with errors is never kept."""
    place = f"{file}\n{text}"
    found = memo.recall("draft", place)
    if found is not None:
        return _draft(file, *found)
    draft = read(text, file)
    if not draft.errors:
        checks = [asdict(check) for check in draft.checks]
        memo.keep("draft", place, (draft.name, draft.origin.line, dict(draft.origin.lines), dict(draft.fields), checks))
    return draft


def _draft(file: str, name: str, line: int | None, lines: dict[str, int], fields: Any, checks: list[Any]) -> Draft:
    return Draft(name, Origin(file, line, lines), fields, tuple(_check(check) for check in checks))


def _check(fields: dict[str, Any]) -> Check:
    types = tuple((name, kind) for name, kind in fields["types"])
    return Check(**{**fields, "columns": tuple(fields["columns"]), "values": tuple(fields["values"]), "types": types})
