"""Variables of the environment that a query uses as a name or a keyword: a run binds them, and can only bind values."""

from __future__ import annotations

import re

from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.lexer import without_comments

_BEFORE_VALUES = frozenset(
    "select distinct all where and or not on having when then else case in like ilike rlike regexp between values by "
    "limit offset is div tablesample set interval using filter qualify escape return current".split()
)
_FROM_WITHIN = re.compile(r"(?:\bdistinct|\b(?:extract|trim|substring|substr|overlay|position)\s*\([^()]*)\s+from\Z")
_WORD = re.compile(r"(\w+)\Z")


def names_in_place_of_values(sql: str, marks: dict[str, str]) -> list[str]:
    """Return the variables of which the mark in a query stands where no value can stand; ``marks`` are by name.

    >>> marks = {name: f"x_{name}" for name in "12345"}
    >>> names_in_place_of_values("select x_1, -x_2 from x_3.t where a = x_4 order by a x_5", marks)
    ['3', '5']
    """
    try:
        text = without_comments(sql)
    except SqlError:
        return []
    wrong = []
    for name, mark in marks.items():
        for match in re.finditer(re.escape(mark) + r"(?!\w)", text):
            if not _is_value(text[: match.start()], text[match.end() :]):
                wrong.append(name)
                break
    return wrong


def _is_value(before: str, after: str) -> bool:
    if re.match(r"[\w.`(]", after) or re.search(r"[\w.`]\Z", before):
        return False
    before = before.rstrip().lower()
    word = _WORD.search(before)
    if word is None:
        return bool(before) and before[-1] not in ")]\"'`"
    return word[1] in _BEFORE_VALUES or _FROM_WITHIN.search(before) is not None
