"""Files that an earlier compilation read already; what is wrong is never kept."""

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
"""The checks of a file, and what is wrong with it."""


def known_draft(read: Callable[[str, str], Draft], text: str, file: str, cache: CompileCache) -> Draft:
    """What ``read`` makes of the text of the joint's ``file``."""
    place = f"{file}\n{text}"
    found = cache.get("draft", place)
    if found is not None:
        name, line, lines, fields, checks = found
        return Draft(name, Origin(file, line, lines), fields, _checks(checks))
    draft = read(text, file)
    if not draft.errors and _are_own(draft.checks):
        checks = _plain(draft.checks)
        cache.put("draft", place, (draft.name, draft.origin.line, dict(draft.origin.lines), dict(draft.fields), checks))
    return draft


def known_checks(read: Callable[[], Checks], text: str, file: str, cache: CompileCache) -> Checks:
    """What ``read`` makes of the text of the quality ``file``."""
    place = f"{file}\n{text}"
    found = cache.get("quality", place)
    if found is not None:
        return _checks(found), []
    checks, errors = read()
    if not errors and _are_own(checks):
        cache.put("quality", place, _plain(checks))
    return checks, errors


def _are_own(checks: Iterable[Check]) -> bool:
    """What a plugin makes of its checks may be another thing tomorrow."""
    return all(is_own_kind(check.kind) for check in checks)


def _plain(checks: Iterable[Check]) -> list[dict[str, Any]]:
    return [dict(vars(check)) for check in checks]


def _checks(plain: Iterable[dict[str, Any]]) -> tuple[Check, ...]:
    return tuple([_check(fields) for fields in plain])


def _check(fields: dict[str, Any]) -> Check:
    return Check(**_tuples(fields))


def _tuples(value: Any) -> Any:
    """``value`` as JSON gives it, with tuples in place of lists."""
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
