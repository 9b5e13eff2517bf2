"""The analysis of joints, portion by portion: their checks, the facts of their queries, and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import Graph
from rivet_dagster.compiler.helper.partner import Partner
from rivet_dagster.compiler.helper.portions import portions
from rivet_dagster.compiler.helper.share import Share
from rivet_dagster.compiler.lineage import Known, KnownColumns
from rivet_dagster.compiler.quality import compile_checks
from rivet_dagster.compiler.schemas import batch_of
from rivet_dagster.model.joint import SQL, Joint
from rivet_dagster.model.project import Project
from rivet_dagster.project.templating import is_template
from rivet_dagster.sql.dialect import SqlError
from rivet_dagster.sql.error import Unreadable
from rivet_dagster.sql.known_query import KnownQuery, know_query
from rivet_dagster.sql.nodes import free_tree


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
