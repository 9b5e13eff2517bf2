"""The analysis of joints, portion by portion: their checks, the facts of their queries, and their columns.

The work on joints that can be shared: their order, and all that determines the values, as plain data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph, levels, topological
from rivet_dagster.compiler.helper.messages import Partner, portions
from rivet_dagster.compiler.lineage import Known, KnownColumns
from rivet_dagster.compiler.quality import compile_checks, shows_row_values
from rivet_dagster.compiler.schemas import batch_of
from rivet_dagster.entry_points import is_own_kind
from rivet_dagster.model.joint import SINK, SOURCE, SQL, Joint
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.project import Project
from rivet_dagster.model.schema import Field, Introspection
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.project.known_files import plain_checks, read_checks
from rivet_dagster.project.templating import is_template
from rivet_dagster.sql.dialect import SqlError
from rivet_dagster.sql.error import Unreadable
from rivet_dagster.sql.known_query import KnownQuery, know_query
from rivet_dagster.sql.nodes import free_tree

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Share:
    """Joints to analyze, in this order; ``inferable`` are those whose columns can be inferred, too.

    ``profile`` and ``introspection`` are what determines the values besides the joints.
    """

    joints: tuple[Joint, ...]
    inferable: frozenset[str]
    profile: Profile
    introspection: Introspection


def share_of(project: Project, introspection: Introspection) -> Share:
    """Return the joints whose values do not depend on templates, those that many others may read first.

    What a joint reads is told by the words of its query: a word that only looks like a joint's name costs time and
    nothing else. Templates, published histories and what follows them have columns that are only known later.
    """
    named = {joint.name: joint for joint in project.joints}
    edges = {name: _reads(joint, named) for name, joint in named.items()}
    inferable: set[str] = set()
    order = topological(edges)
    for name in order:
        joint = named[name]
        history = joint.publishes and joint.write_strategy.validity  # readers find more columns
        if not (_has_template(joint) or history or joint.type == SINK) and edges[name] <= inferable:
            inferable.add(name)
    first = [named[name] for level in levels(edges, order) for name in level if name in inferable]
    others = [
        joint
        for name, joint in named.items()
        if name not in inferable and (joint.quality or (joint.type == SQL and not _has_template(joint)))
    ]
    return Share((*first, *others), frozenset(inferable), project.profile, introspection)


def _has_template(joint: Joint) -> bool:
    return joint.sql is not None and is_template(joint.sql)


def _reads(joint: Joint, named: Mapping[str, Joint]) -> set[str]:
    if joint.upstream is not None:
        return {*joint.upstream} & named.keys()
    words = _WORD.findall(joint.sql.lower()) if joint.type == SQL and joint.sql is not None else ()
    return ({*words} & named.keys()) - {joint.name}


def plain_share(share: Share) -> dict[str, Any]:
    """Return the share as plain data."""
    tables = share.introspection.tables
    sources = [joint.name for joint in share.joints if joint.type == SOURCE and joint.name in tables]
    return {
        "joints": [_plain(joint, share.profile) for joint in share.joints],
        "inferable": sorted(share.inferable),
        "tables": {name: [(field.name, field.type) for field in tables[name]] for name in sources},
    }


def _plain(joint: Joint, profile: Profile) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the values of a joint on which those of the cache depend, and its checks if all are built in."""
    values = {key: getattr(joint, key) for key in ("name", "type", "sql", "columns", "filter", "limit", "upstream")}
    ddl = joint.options.get("schema")
    values["options"] = {"schema": ddl} if isinstance(ddl, str) else {}
    values["row_values"] = shows_row_values(joint, profile)
    checks = joint.quality if all(is_own_kind(check.kind) for check in joint.quality) else ()
    return {key: value for key, value in values.items() if value is not None}, plain_checks(checks)


def read_share(plain: Mapping[str, Any]) -> Share:
    """Return the share that ``plain_share`` has written."""
    joints = [Joint.of_converted(values, read_checks(checks), Origin()) for values, checks in plain["joints"]]
    tables = {name: tuple(Field(*field) for field in fields) for name, fields in plain["tables"].items()}
    inferable = frozenset(plain["inferable"])
    return Share(tuple(joints), inferable, Profile("", (), (), None), Introspection(tables))


def analyze(share: Share, cache: CompileCache, numbers: Iterable[int], partner: Partner) -> None:
    """Put values into the cache, those of the portions with these ``numbers``.

    The columns of joints are told to the other process, since those of their readers follow from them. Where it ends
    before it has told them, its readers are left out.
    """
    analysis = _Analysis(share, cache)
    parts = portions(share.joints)
    for number in numbers:
        for notes in partner.receive():
            analysis.learn(notes)
        analysis.add(parts[number])
        partner.send({"portion": number, "columns": analysis.infer()})
    while analysis.waiting and partner.wait():
        for notes in partner.receive():
            analysis.learn(notes)
        if columns := analysis.infer():
            partner.send({"columns": columns})


class _Analysis:
    """Its values are put into the cache; errors are left to the compiler."""

    def __init__(self, share: Share, cache: CompileCache) -> None:
        self._share = share
        self._cache = cache
        self._joints = {joint.name: joint for joint in share.joints}
        self._upstream: dict[str, tuple[str, ...]] = {}
        self._queries: dict[str, KnownQuery] = {}
        self._graph = Graph(self._joints, self._upstream, self._queries, {})
        self._columns = KnownColumns(cache)
        self._known: dict[str, Known] = {}
        self._diagnostics = Diagnostics()
        self.waiting: list[str] = []
        """The joints whose columns are to be inferred, each after those that it reads."""

    def add(self, joints: Sequence[Joint]) -> None:
        """Compile the checks of the joints, and read their queries."""
        if any(joint.quality for joint in joints):
            compile_checks(Project(self._share.profile, tuple(joints)), self._diagnostics, self._cache)
        for joint in joints:
            self._upstream[joint.name] = joint.upstream or ()
            if joint.type == SQL and joint.sql is not None and not is_template(joint.sql):
                self._read(joint, joint.sql)
            if self._share.inferable.issuperset((joint.name, *self._upstream[joint.name])):
                self.waiting.append(joint.name)

    def _read(self, joint: Joint, sql: str) -> None:
        try:
            query = self._queries[joint.name] = know_query(sql, self._cache)
        except SqlError:
            return
        if joint.upstream is None:
            read = sorted(name for name in query.reads if name in self._joints and name != joint.name)
            self._upstream[joint.name] = tuple(read)

    def learn(self, notes: Mapping[str, Mapping[str, str]]) -> None:
        """Note the columns of joints that the other process has inferred."""
        for name, text in notes.get("columns", {}).items():
            self._known[name] = self._columns.made_of(text, ())

    def infer(self) -> dict[str, str]:
        """Infer the columns of those joints that wait for no other, and return them as text, by joint."""
        waiting, self.waiting = self.waiting, []
        inferred: dict[str, str] = {}
        for name in waiting:
            if all(upstream in self._known for upstream in self._upstream[name]):
                self._known[name] = self._inferred(name)
                inferred[name] = self._known[name].text
            else:
                self.waiting.append(name)
        return inferred

    def _inferred(self, name: str) -> Known:
        joint = self._joints[name]
        if joint.type == SQL and name not in self._queries:
            return Known()
        tables = self._share.introspection.tables
        try:
            return batch_of(joint, self._graph, self._known, self._diagnostics, self._columns, tables)
        except Unreadable:
            return Known()
        finally:
            query = self._queries.pop(name, None)
            tree = vars(query).get("tree") if query is not None else None  # asking for it could parse the query again
            if tree is not None:
                free_tree(tree)
