"""The separation of the joints of a quarantining group into rows and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.group_query import Cte, GroupQuery
from rivet_dagster.model.row_errors import NotSeparable, RowErrors
from rivet_dagster.sql.evaluation.error_query import Place
from rivet_dagster.sql.evaluation.keys import keys_of_input
from rivet_dagster.sql.evaluation.separation import separate

Separated = RowErrors | NotSeparable | None
Places = Mapping[str, tuple[Place, Place]]
"""Where the texts of each joint stand: that of a first run, and the incremental one."""


def with_errors(query: GroupQuery, graph: Graph, keys: Sequence[str], cache: CompileCache) -> GroupQuery:
    """Return the query with the errors of each of its joints.

    ``keys`` are the key columns of the target; errors of joints whose rows keep these columns have their row's key.
    """
    places = {cte.joint: _places(cte.joint, graph) for cte in query.ctes}
    return separated(query, places, keys, cache)


def separated(
    query: GroupQuery, places: Places, keys: Sequence[str] = (), cache: CompileCache | None = None
) -> GroupQuery:
    """Return the query with the errors of each of its joints, which stand at ``places``."""
    cache = CompileCache() if cache is None else cache
    keys_of = dict.fromkeys(query.results, tuple(keys))
    ctes: list[Cte] = []
    for cte in reversed(query.ctes):
        own = keys_of.get(cte.joint, ())
        place, later_place = places[cte.joint]
        errors = _separated(cte.text, place, own, cache)
        later = cte.incremental
        if later is not None:
            later = replace(later, errors=_separated(later.text, later_place, own, cache))
        ctes.append(replace(cte, errors=errors, incremental=later))
        passed = keys_of_input(cte.text, own)
        if passed is not None and passed[0] not in keys_of:
            keys_of[passed[0]] = passed[1]
    return replace(query, ctes=tuple(reversed(ctes)))


def _places(name: str, graph: Graph) -> tuple[Place, Place]:
    origin = graph.joints[name].origin
    renderings = graph.renderings(name)
    first, later = (Place(name, origin.file, origin.lines.get("sql"), renderings[at].lines) for at in (0, -1))
    return first, later


def _separated(sql: str, place: Place, keys: tuple[str, ...], cache: CompileCache) -> Separated:
    text = json.dumps([sql, asdict(place), keys])
    known = cache.get("row_errors", text)
    if known is None:
        found = separate(sql, place, keys)
        known = {} if found is None else asdict(found)
        cache.put("row_errors", text, known)
    if not known:
        return None
    if known["separable"]:
        return RowErrors(good=known["good"], queries=tuple(known["queries"]), proof=known["proof"])
    return NotSeparable(construct=known["construct"], line=known["line"])
