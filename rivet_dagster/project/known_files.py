"""Drafts and checks of files, cached by the files' text; files with errors are not cached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rivet_dagster.cache import CompileCache
from rivet_dagster.entry_points import is_own_kind
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.check import Check
from rivet_dagster.model.origin import Origin
from rivet_dagster.project.draft import Draft

Checks = tuple[tuple[Check, ...], list[Diagnostic]]
"""The checks of a file, and the errors in it."""


def known_draft(read: Callable[[str, str], Draft], text: str, file: str, cache: CompileCache) -> Draft:
    """Return ``read``'s draft of the joint's ``file``, from the cache if its text is the same."""
    key = f"{file}\n{text}"
    cached = cache.get("draft", key)
    if cached is not None:
        name, line, lines, fields, checks = cached
        return Draft(name, Origin(file, line, lines), fields, _checks(checks))
    draft = read(text, file)
    if not draft.errors and _are_own(draft.checks):
        checks = _plain(draft.checks)
        cache.put("draft", key, (draft.name, draft.origin.line, dict(draft.origin.lines), dict(draft.fields), checks))
    return draft


def known_checks(read: Callable[[], Checks], text: str, file: str, cache: CompileCache) -> Checks:
    """Return ``read``'s checks of the quality ``file``, from the cache if its text is the same."""
    key = f"{file}\n{text}"
    cached = cache.get("quality", key)
    if cached is not None:
        return _checks(cached), []
    checks, errors = read()
    if not errors and _are_own(checks):
        cache.put("quality", key, _plain(checks))
    return checks, errors


def _are_own(checks: Iterable[Check]) -> bool:
    """Return whether all checks are built in: a plugin may be replaced by a version that parses them differently."""
    return all(is_own_kind(check.kind) for check in checks)


def _plain(checks: Iterable[Check]) -> list[dict[str, Any]]:
    return [dict(vars(check)) for check in checks]


def _checks(plain: Iterable[dict[str, Any]]) -> tuple[Check, ...]:
    return tuple([_check(fields) for fields in plain])


def _check(fields: dict[str, Any]) -> Check:
    return Check(**_tuples(fields))


def _tuples(value: Any) -> Any:
    """Return ``value`` with its lists, which come from JSON, as tuples."""
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
