"""Selections in dbt's syntax, translated to Dagster's asset selections.

selection     alternatives separated by spaces: the union of what they select
alternative   terms separated by commas: the intersection of what they select
term          [N]+VALUE: with its upstream, up to N steps away; without N, all of it
              VALUE+[N]: with its downstream, likewise
              @VALUE: with all its downstream, and all upstream of these
value         the name of a joint, or METHOD:VALUE; * in a name matches any text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import reduce
from operator import and_, or_
from pathlib import PurePosixPath

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.specs.selection import beta_accepted
from rivet_dagster.errors import RivetError, nearest

_TERM = re.compile(r"(?P<at>@)?(?:(?P<before>\d*)\+)?(?:(?P<method>\w+):)?(?P<value>[^+@]+)(?:\+(?P<behind>\d*))?")


def build_rivet_asset_selection(project: RivetProject, text: str) -> dg.AssetSelection:
    """Return the asset selection for ``text``, which is written in dbt's syntax.

    Spaces mean union, commas intersection; the graph operators are ``+`` and ``@``.
    The methods are ``path:`` (a file or folder, from the project), ``tag:`` (``tag:layer=raw`` for one of its values),
    ``group:`` and ``kind:``. Raises RVT-122.

    >>> project = RivetProject.load("example_repo")
    >>> text = "1+carrier_fleets path:joints/marts/carrier_punctuality.sql,tag:yearly"
    >>> str(build_rivet_asset_selection(project, text))
    '1+key:"carrier_fleets" or (key:"carrier_punctuality" and tag:"yearly")'
    """
    alternatives = [_all_of(project, alternative) for alternative in text.split()]
    if not alternatives:
        raise RivetError("RVT-122", "the selection is empty")
    return reduce(or_, alternatives)


def _all_of(project: RivetProject, alternative: str) -> dg.AssetSelection:
    return reduce(and_, [_term(project, term) for term in alternative.split(",")])


def _term(project: RivetProject, text: str) -> dg.AssetSelection:
    term = _TERM.fullmatch(text)
    if term is None or (term["at"] and (term["before"] is not None or term["behind"] is not None)):
        raise RivetError("RVT-122", f"'{text}' is no part of a selection")
    method = term["method"] or "name"
    if method not in _METHODS:
        raise RivetError("RVT-122", f"'{text}': there is no method '{method}'{nearest(method, _METHODS)}")
    with beta_accepted():
        selection = _METHODS[method](project, term["value"])
    if term["at"]:
        return selection.downstream().upstream()
    widened: list[dg.AssetSelection] = []
    if term["before"] is not None:
        widened.append(selection.upstream(_steps(term["before"])))
    if term["behind"] is not None:
        widened.append(selection.downstream(_steps(term["behind"])))
    return reduce(or_, widened or [selection])


def _steps(number: str) -> int | None:
    return int(number) if number else None


def _names(project: RivetProject, pattern: str) -> dg.AssetSelection:
    return _assets(project, _matching("joint", pattern, project.names))


def _path(project: RivetProject, path: str) -> dg.AssetSelection:
    """Return a selection of the joints whose files are at ``path`` or below it."""
    files = {name: PurePosixPath(file) for name in project.names if (file := project.assembly.joint(name).file)}
    wanted = PurePosixPath(path)
    names = [name for name, file in files.items() if wanted == file or wanted in file.parents]
    if not names:
        known = {str(path) for file in files.values() for path in (file, *file.parents[:-1])}
        raise RivetError("RVT-122", f"no joint lies at '{path}'{nearest(path, known)}")
    return _assets(project, names)


def _tag(project: RivetProject, text: str) -> dg.AssetSelection:
    tags = {tag for name in project.names for tag in project.spec(name).tags.items()}
    shown = {f"{key}={value}" if "=" in text else key for key, value in tags}
    wanted = _matching("tag", text, shown)
    chosen = sorted(tag for tag in tags if tag[0] in wanted or "=".join(tag) in wanted)
    return reduce(or_, [dg.AssetSelection.tag(key, value) for key, value in chosen])


def _group(project: RivetProject, pattern: str) -> dg.AssetSelection:
    known = {project.spec(name).group_name or "default" for name in project.names}
    return dg.AssetSelection.groups(*_matching("group", pattern, known))


def _kind(project: RivetProject, pattern: str) -> dg.AssetSelection:
    known = {kind for name in project.names for kind in project.spec(name).kinds}
    return reduce(or_, [dg.AssetSelection.kind(kind) for kind in _matching("kind", pattern, known)])


_METHODS: Mapping[str, Callable[[RivetProject, str], dg.AssetSelection]] = {
    "name": _names,
    "path": _path,
    "tag": _tag,
    "group": _group,
    "kind": _kind,
}


def _matching(noun: str, pattern: str, known: Iterable[str]) -> list[str]:
    """Return the names that match ``pattern``, in order. Raises RVT-122 if there are none."""
    names = sorted(known)
    matching = [name for name in names if fnmatchcase(name, pattern)]
    if not matching:
        raise RivetError("RVT-122", f"there is no {noun} '{pattern}'{nearest(pattern, names)}")
    return matching


def _assets(project: RivetProject, names: Iterable[str]) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*project.keys(names))
