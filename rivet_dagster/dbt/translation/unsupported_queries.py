"""Queries that cannot be moved: a CTE that hides a reference, a variable of the environment in place of a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rivet_dagster.cache import CompileCache
from rivet_dagster.dbt.values import UnknownValueError
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.known_query import know_query
from rivet_dagster.sql.lexer import without_comments

_BEFORE_VALUES = frozenset(
    "select distinct all where and or not on having when then else case in like ilike rlike regexp between values by "
    "limit offset is div tablesample set interval using filter qualify escape return current".split()
)

_FROM_WITHIN = re.compile(r"(?:\bdistinct|\b(?:extract|trim|substring|substr|overlay|position)\s*\([^()]*)\s+from\Z")

_WORD = re.compile(r"(\w+)\Z")

MARK = "rivet_marked_"


def hidden_refs(body: str, refs: Iterable[str], render: Callable[[str, str, bool], str]) -> list[str]:
    """Return the joints that a query reads by ``ref`` where its own CTE of that name is meant.

    ``render`` returns the text of a template with a prefix before each joint, in a first or an incremental run.
    """
    own = [ref for ref in refs if re.search(rf"\b{ref}\s*(?:\([^)]*\))?\s+as\s*\(", body, re.IGNORECASE)]
    if not own:
        return []
    cache = CompileCache()
    hidden = []
    for incremental in (False, True):
        try:
            plain = know_query(render(body, "", incremental), cache).reads
            marked = know_query(render(body, MARK, incremental), cache).reads
        except (SqlError, UnknownValueError):
            continue
        hidden += [ref for ref in own if plain.get(ref, 0) != marked.get(f"{MARK}{ref}", 0)]
    return list(dict.fromkeys(hidden))


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
