"""A group's query as data, and the only function that renders its text, for display and for Spark alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rivet_dagster.model.row_errors import ComparedTypes, NotSeparable, Proof, RowByRow, RowErrors
from rivet_dagster.sql.fusion import fuse, union_by_name
from rivet_dagster.sql.parsing.dialect import quote_name
from rivet_dagster.sql.target import watermark_of

_ERRORS = "errors"
"""The name of the CTE of all errors, the last one, which no joint reads."""
_TYPES = "compared types"
"""The name of the CTE of columns whose types are compared, the last one, too."""


@dataclass(frozen=True, slots=True)
class Incremental:
    """The query that a template gives in runs that find ``sink`` published.

    ``parameters`` are those that its ``text`` binds; ``this`` says that the text reads the sink's published rows.
    ``errors`` and ``row_by_row`` are as in ``Cte``.
    """

    text: str
    sink: str
    parameters: tuple[str, ...] = ()
    this: bool = False
    errors: RowErrors | NotSeparable | None = None
    row_by_row: RowByRow | None = None

    @property
    def watermark(self) -> bool:
        """Whether the text binds the watermark of the sink."""
        return watermark_of(self.sink) in self.parameters


@dataclass(frozen=True, slots=True)
class Cte:
    """A SQL joint as a part of its group's query: its ``text`` and the ``parameters`` that the text binds.

    ``incremental`` is the query of incremental runs, None where it is the same; ``upstream`` are the joints that it
    reads. A source whose expressions may fail is a part of a quarantining group's query, too: it reads its
    ``source_view``. ``errors`` is None where no row of the text can fail to be evaluated; ``row_by_row`` is the text as
    a link of a chain, None where it is none. ``dialect`` is the SQL of the text, None for Spark's.
    """

    joint: str
    text: str
    upstream: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    incremental: Incremental | None = None
    errors: RowErrors | NotSeparable | None = None
    row_by_row: RowByRow | None = None
    dialect: str | None = None

    def text_for(self, incremental: bool) -> str:
        """Return the text of an incremental run, or of a first one."""
        return self.incremental.text if incremental and self.incremental is not None else self.text

    def errors_for(self, incremental: bool) -> RowErrors | None:
        """Return the separated text of an incremental run, or of a first one; None if there is none."""
        errors = self.incremental.errors if incremental and self.incremental is not None else self.errors
        return errors if isinstance(errors, RowErrors) else None

    def row_by_row_for(self, incremental: bool) -> RowByRow | None:
        """Return the text of an incremental run, or of a first one, as a link of a chain."""
        return self.incremental.row_by_row if incremental and self.incremental is not None else self.row_by_row

    def good_for(self, incremental: bool) -> str:
        """Return the text of the rows that can be evaluated."""
        errors = self.errors_for(incremental)
        return self.text_for(incremental) if errors is None else errors.good

    def parameters_for(self, incremental: bool) -> tuple[str, ...]:
        """Return the parameters of that text."""
        return self.incremental.parameters if incremental and self.incremental is not None else self.parameters


@dataclass(frozen=True, slots=True)
class FusedQuery:
    """The rows of the joint ``result``: its CTEs with their texts, and the further ``inputs`` that it reads.

    ``dialect`` is the SQL of all its CTEs, None for Spark's.
    """

    result: str
    ctes: tuple[tuple[str, str], ...]
    inputs: tuple[str, ...]
    dialect: str | None = None

    @property
    def sql(self) -> str:
        """The text that is passed to an engine."""
        return fuse(self.ctes, self.result, '"' if self.dialect is not None else "`")


@dataclass(frozen=True, slots=True)
class GroupQuery:
    """The union by name of ``results``, each of them one of ``ctes`` or a joint outside of the group.

    ``ctes`` are in topological order: each reads only those before it.
    """

    results: tuple[str, ...]
    ctes: tuple[Cte, ...]

    @property
    def read(self) -> tuple[str, ...]:
        """The joints outside of the query that it reads, in order.

        >>> GroupQuery(("b", "u"), (Cte("b", "SELECT * FROM a JOIN t", ("a", "t")),)).read
        ('a', 't', 'u')
        """
        names = {*self.results, *[name for cte in self.ctes for name in cte.upstream]}
        return tuple(sorted(names.difference([cte.joint for cte in self.ctes])))

    def of(self, joint: str) -> GroupQuery:
        """Return the query of one joint among the CTEs, with only the CTEs that it needs.

        >>> a, b = Cte("a", "SELECT 1", ()), Cte("b", "SELECT * FROM a", ("a",))
        >>> GroupQuery(("b",), (a, b)).of("a") == GroupQuery(("a",), (a,))
        True
        """
        return GroupQuery((joint,), tuple(self._needed(joint)))

    def fused(self, incremental: Collection[str] = ()) -> tuple[FusedQuery, ...]:
        """Return a query for each result; the joints named ``incremental`` contribute their incremental text.

        >>> a, b = Cte("a", "SELECT * FROM t", ("t",)), Cte("b", "SELECT * FROM a", ("a",))
        >>> GroupQuery(("b",), (a, b)).fused()
        (FusedQuery(result='b', ctes=(('a', 'SELECT * FROM t'), ('b', 'SELECT * FROM a')), inputs=('t',), ...),)
        """
        return tuple([_fused(result, self._needed(result), incremental) for result in self.results])

    def good(self, incremental: Collection[str] = ()) -> tuple[FusedQuery, ...]:
        """Return a query for each result, as ``fused`` does, of the rows that can be evaluated."""
        good = tuple(replace(cte, text=cte.good_for(cte.joint in incremental), incremental=None) for cte in self.ctes)
        return GroupQuery(self.results, good).fused()

    def errors(self, incremental: Collection[str] = ()) -> FusedQuery | None:
        """Return the query of the errors of all joints, with QUERY_COLUMNS; None if there can be none.

        >>> from rivet_dagster.model.row_errors import RowErrors
        >>> cte = Cte("a", "SELECT 1 / x", ("t",), errors=RowErrors(good="SELECT 1", queries=("SELECT 'j' FROM t",)))
        >>> print(GroupQuery(("a",), (cte,)).errors().sql)
        WITH `errors of a 1` AS (
        SELECT 'j' FROM t
        ),
        errors AS (
        SELECT * FROM `errors of a 1`
        )
        SELECT * FROM errors
        """
        chains = self._chains(incremental)
        texts: list[tuple[str, str]] = []
        names: list[str] = []
        for cte in self.ctes:
            if cte.joint in chains:
                of_chain = _errors_of_chain(cte.joint, chains[cte.joint])
            elif any(cte.joint in (link.joint for link, _ in chain) for chain in chains.values()):
                of_chain = []
            else:
                separated = cte.errors_for(cte.joint in incremental)
                queries = enumerate(separated.queries if separated is not None else (), 1)
                of_chain = [[(f"errors of {cte.joint} {number}", query)] for number, query in queries]
            for query in of_chain:
                texts += query
                names.append(query[-1][0])
            texts.append((cte.joint, cte.good_for(cte.joint in incremental)))
        if not names:
            return None
        last = max(index for index, (name, _) in enumerate(texts) if name == names[-1])
        union = "\nUNION ALL\n".join(f"SELECT * FROM {quote_name(name)}" for name in names)
        ctes = (*texts[: last + 1], (_ERRORS, union))
        inside = {cte.joint for cte in self.ctes}
        read = {name for cte in self.ctes for name in cte.upstream}
        return FusedQuery(_ERRORS, ctes, tuple(sorted(read - inside)))

    def _chains(self, incremental: Collection[str]) -> dict[str, list[Link]]:
        """Return the chains in which several joints can fail, by the last joint of each."""
        readers = Counter(name for cte in self.ctes for name in cte.upstream)
        chains: dict[str, list[Link]] = {}
        for cte in self.ctes:
            link = cte.row_by_row_for(cte.joint in incremental)
            if link is None or isinstance(cte.errors_for(cte.joint in incremental), NotSeparable):
                continue
            before = next((name for name in chains if name.lower() == link.reads.lower()), None)
            alone = before is not None and readers[before] == 1 and before not in self.results
            chains[cte.joint] = [*(chains.pop(before) if before is not None and alone else []), (cte, link)]
        failing = {cte.joint for cte in self.ctes if cte.errors_for(cte.joint in incremental) is not None}
        return {name: chain for name, chain in chains.items() if sum(cte.joint in failing for cte, _ in chain) > 1}

    def proof(self, incremental: Collection[str] = ()) -> Proof:
        """Return when a success of the query that ``fused`` gives proves that there are no errors."""
        ctes = {cte.joint.lower(): cte for cte in self.ctes}
        failing = {cte.joint: cte.errors_for(cte.joint in incremental) for cte in self.ctes}
        left = {joint for joint, errors in failing.items() if errors is not None and errors.queries}
        (result, *others) = self.results
        errors = failing.get(result)
        if not left:
            return "always"
        if others or (errors is not None and errors.proof == "never"):
            return "never"
        proof: Proof = "always" if errors is None else errors.proof
        # Spark evaluates of another joint only the rows and columns that its readers need.
        columns: frozenset[str] | None = None
        cte: Cte | None = ctes.get(result.lower())
        while left - {result}:
            link = cte.row_by_row_for(cte.joint in incremental) if cte is not None else None
            if link is None or link.filters or (columns := link.read_for(columns)) == frozenset():
                return "never"
            cte = ctes.get(link.reads.lower())
            before = cte.row_by_row_for(cte.joint in incremental) if cte is not None else None
            if cte is not None and cte.joint in left:
                if before is None or not (columns is None or columns.issuperset(before.failing)):
                    return "never"
                left.remove(cte.joint)
        return proof

    def compared_types(
        self, incremental: Collection[str] = ()
    ) -> Iterator[tuple[str, ComparedTypes, FusedQuery, FusedQuery]]:
        """Yield the types that are to be compared before rows are written: the joint, and the queries of both sides."""
        known: list[tuple[str, str]] = []
        read: set[str] = set()
        for cte in self.ctes:
            read |= set(cte.upstream)
            inputs = tuple(sorted(read.difference([name for name, _ in known])))
            separated = cte.errors_for(cte.joint in incremental)
            for one in separated.compared if separated is not None else ():
                left, right = (FusedQuery(_TYPES, (*known, (_TYPES, text)), inputs) for text in (one.left, one.right))
                yield cte.joint, one, left, right
            known.append((cte.joint, cte.good_for(cte.joint in incremental)))

    def not_separable(self, incremental: Collection[str] = ()) -> NotSeparable | None:
        """Return why errors cannot be separated from the rows, of the first joint of which that is so."""
        for cte in self.ctes:
            variant = cte.incremental if cte.joint in incremental else None
            errors = variant.errors if variant is not None else cte.errors
            if isinstance(errors, NotSeparable):
                return errors
        return None

    def text(self, *, incremental: bool = False) -> str:
        """Return the whole query for display: of a first run, or of a run in which all CTEs are incremental."""
        return union_by_name([query.sql for query in self.fused(self.incremental_joints if incremental else ())])

    @property
    def incremental_joints(self) -> tuple[str, ...]:
        """The joints that have an incremental text."""
        return tuple([cte.joint for cte in self.ctes if cte.incremental is not None])

    def _needed(self, result: str) -> list[Cte]:
        """Return the CTEs needed to compute ``result``, in order."""
        needed, names = [], {result}
        for cte in reversed(self.ctes):
            if cte.joint in names:
                needed.append(cte)
                names.update(cte.upstream)
        return needed[::-1]


Link = tuple[Cte, RowByRow]
"""A joint of a chain, and its text as a link of it."""


def _errors_of_chain(last: str, chain: Sequence[Link]) -> list[list[tuple[str, str]]]:
    """Return the CTEs of the errors of a chain, in two halves: the rows that fail in it, and what they fail with."""
    from rivet_dagster.sql.row_errors import row_by_row  # which takes longer to import than this package

    texts = [(f"{last} begins with", row_by_row.flag_rows(chain[0][1].reads))]
    for cte, link in chain:
        texts.append((f"{cte.joint} with flags", _over(texts[-1][0], link.flags)))
    texts.append((f"{last} fails for", row_by_row.select_failed(texts[-1][0])))
    for cte, link in chain:
        texts.append((f"{cte.joint} with errors", _over(texts[-1][0], link.errors)))
    return [[*texts, (f"errors of {last}", row_by_row.errors(texts[-1][0]))]]


def _over(table: str, text: str) -> str:
    """Return a link's text over a table."""
    from rivet_dagster.sql.row_errors import row_by_row

    return text.replace(f"FROM {row_by_row.INPUT} AS ", f"FROM {quote_name(table)} AS ", 1)


def _fused(result: str, ctes: Collection[Cte], incremental: Collection[str]) -> FusedQuery:
    read = {result, *[name for cte in ctes for name in cte.upstream]}
    texts = tuple([(cte.joint, cte.text_for(cte.joint in incremental)) for cte in ctes])
    dialect = next((cte.dialect for cte in ctes), None)
    return FusedQuery(result, texts, tuple(sorted(read.difference([cte.joint for cte in ctes]))), dialect)
