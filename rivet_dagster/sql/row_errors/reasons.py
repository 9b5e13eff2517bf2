"""The site of a node that may raise for several reasons."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.row_errors.parameters import Reason
from rivet_dagster.sql.row_errors.site import Site, literal, shown

_NAME = re.compile(r"[A-Z0-9_.]+")


def site_for(kind: str, operands: Sequence[exp.Expr], reasons: Sequence[Reason]) -> Site | None:
    """Return the site of a call that raises for one of the ``reasons``: the first that holds, or else the last one.

    >>> site_for("f", [exp.column("a")], [Reason("", "{0} = 0", "ZERO"), Reason("", "true", "OTHER")]).condition
    "CASE WHEN {0} = 0 THEN 'ZERO' ELSE 'OTHER' END"
    >>> site_for("f", [exp.column("a")], [])
    """
    if not reasons:
        return None
    *others, last = reasons
    condition = _code(last.condition)
    if any(reason.condition != last.condition for reason in others):
        cases = " ".join(f"WHEN {reason.when} THEN {_code(reason.condition)}" for reason in others)
        condition = f"CASE {cases} ELSE {condition} END"
    guard = "" if any(not reason.guard for reason in reasons) else _either([reason.guard for reason in reasons])
    values = ", ', ', ".join(shown(i) for i in range(len(operands)))
    message = f"concat('{kind}(', {values}, ') cannot be computed.')"
    return Site(kind, tuple(operands), condition, message, guard)


def _code(condition: str) -> str:
    """Return a condition's name as a literal; a template that computes it stays as it is."""
    return literal(condition) if _NAME.fullmatch(condition) else condition


def _either(guards: Sequence[str]) -> str:
    different = list(dict.fromkeys(guards))
    return different[0] if len(different) == 1 else " OR ".join(f"({guard})" for guard in different)
