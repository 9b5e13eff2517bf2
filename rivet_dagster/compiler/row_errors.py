"""Groups that quarantine row errors: the separation of their joints into rows and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.group_query import Cte, GroupQuery
from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.model.joint import SOURCE, Joint
from rivet_dagster.model.row_errors import ComparedTypes, NotSeparable, RowByRow, RowErrors
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.row_errors.row_by_row import keys_of_input, row_by_row
from rivet_dagster.sql.row_errors.separation import separate
from rivet_dagster.sql.source_query import projection_by_line
from rivet_dagster.sql.target import source_view

Separated = RowErrors | NotSeparable | None
Locations = Mapping[str, tuple[QueryLocation, QueryLocation]]
"""Where the texts of each joint stand: that of a first run, and the incremental one."""


def with_errors(query: GroupQuery, graph: Graph, keys: Sequence[str], cache: CompileCache) -> GroupQuery:
    """Return the query with the errors of each of its joints, and of the sources that it reads.

    ``keys`` are the key columns of the target; errors of joints whose rows keep these columns have their row's key.
    """
    locations = {cte.joint: _locations(cte.joint, graph) for cte in query.ctes}
    sources = [joint for name in query.read if (joint := graph.joints[name]).type == SOURCE]
    described = [SourceQuery.of(s, s.origin.file, s.expression_lines) for s in sources]
    return separate_errors(query, locations, keys, cache, described)


@dataclass(frozen=True)
class SourceQuery:
    """A source's inline transforms as a part of a group's query, and the location of its text."""

    cte: Cte
    location: QueryLocation

    @classmethod
    def of(cls, source: Joint | SourceJoint, file: str | None, lines: Mapping[str, int]) -> SourceQuery:
        """Return that of ``source``, whose expressions are on these ``lines`` of its file."""
        view = source_view(source.name)
        text, locations = projection_by_line(view, source.columns, source.filter, source.limit, lines)
        return cls(Cte(source.name, text, (view,)), QueryLocation(source.name, file, 1 if lines else None, locations))


def separate_errors(
    query: GroupQuery,
    locations: Locations,
    keys: Sequence[str] = (),
    cache: CompileCache | None = None,
    sources: Sequence[SourceQuery] = (),
) -> GroupQuery:
    """Return the query with the errors of each of its joints, which stand at ``locations``.

    Those of ``sources`` in which something can fail become a part of it.
    """
    cache = CompileCache() if cache is None else cache
    locations = {**locations, **{source.cte.joint: (source.location, source.location) for source in sources}}
    keys_of = dict.fromkeys(query.results, tuple(keys))
    ctes: list[Cte] = []
    of_sources = {source.cte.joint for source in sources}
    for cte in reversed((*(source.cte for source in sources), *query.ctes)):
        keys_of_joint = keys_of.get(cte.joint, ())
        location, later_location = locations[cte.joint]
        errors = _separated(cte.text, location, keys_of_joint, cache)
        if errors is None and cte.joint in of_sources:
            continue
        link = _row_by_row(cte.text, location, keys_of_joint, cache)
        later = cte.incremental
        if later is not None:
            of_later = later.text, later_location, keys_of_joint, cache
            later = replace(later, errors=_separated(*of_later), row_by_row=_row_by_row(*of_later))
        ctes.append(replace(cte, errors=errors, row_by_row=link, incremental=later))
        passed = keys_of_input(cte.text, keys_of_joint)
        if passed is not None and passed[0] not in keys_of:
            keys_of[passed[0]] = passed[1]
    return replace(query, ctes=tuple(reversed(ctes)))


def _locations(name: str, graph: Graph) -> tuple[QueryLocation, QueryLocation]:
    origin = graph.joints[name].origin
    renderings = graph.renderings(name)
    first, later = (QueryLocation(name, origin.file, origin.lines.get("sql"), renderings[at].lines) for at in (0, -1))
    return first, later


def _separated(sql: str, location: QueryLocation, keys: tuple[str, ...], cache: CompileCache) -> Separated:
    text = json.dumps([sql, asdict(location), keys])
    known = cache.get("row_errors", text)
    if known is None:
        separated = separate(sql, location, keys)
        known = {} if separated is None else asdict(separated)
        cache.put("row_errors", text, known)
    if not known:
        return None
    if known["separable"]:
        compared = tuple(ComparedTypes(**one) for one in known["compared"])
        return RowErrors(good=known["good"], queries=tuple(known["queries"]), proof=known["proof"], compared=compared)
    return NotSeparable(construct=known["construct"], line=known["line"])


def _row_by_row(sql: str, location: QueryLocation, keys: tuple[str, ...], cache: CompileCache) -> RowByRow | None:
    text = json.dumps([sql, asdict(location), keys])
    known = cache.get("row_by_row", text)
    if known is None:
        link = row_by_row(sql, location, keys)
        known = {} if link is None else asdict(link)
        cache.put("row_by_row", text, known)
    if not known:
        return None
    passed = tuple((outer, inner) for outer, inner in known["passed"])
    return RowByRow(**{**known, "failing": tuple(known["failing"]), "passed": passed})
