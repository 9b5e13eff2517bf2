"""References that a query's own CTE hides: in dbt they are tables with a schema, here names like any other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rivet_dagster.cache import CompileCache
from rivet_dagster.dbt.values import UnknownValueError
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.known_query import know_query

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
