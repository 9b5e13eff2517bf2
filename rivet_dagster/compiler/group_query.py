"""A group's query as data, and the only function that renders its text, for display and for Spark alike."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from rivet_dagster.model.row_errors import NotSeparable, Proof, RowErrors
from rivet_dagster.sql.dialect import quoted
from rivet_dagster.sql.fuse import fuse, union_by_name
from rivet_dagster.sql.target import watermark_of

_ERRORS = "errors"
"""The name of the CTE of all errors, the last one, which no joint reads."""


@dataclass(frozen=True, slots=True)
class Incremental:
    """The query that a template gives in runs that find ``sink`` published.

    ``parameters`` are those that its ``text`` binds; ``this`` says that the text reads the sink's published rows.
    ``errors`` are as in ``Cte``.
    """

    text: str
    sink: str
    parameters: tuple[str, ...] = ()
    this: bool = False
    errors: RowErrors | NotSeparable | None = None

    @property
    def watermark(self) -> bool:
        """Whether the text binds the watermark of the sink."""
        return watermark_of(self.sink) in self.parameters


@dataclass(frozen=True, slots=True)
class Cte:
    """A SQL joint as a part of its group's query: its ``text`` and the ``parameters`` that the text binds.

    ``incremental`` is the query of incremental runs, None where it is the same; ``upstream`` are the joints that it
    reads. ``errors`` is None where no row of the text can fail to be evaluated.
    """

    joint: str
    text: str
    upstream: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    incremental: Incremental | None = None
    errors: RowErrors | NotSeparable | None = None

    def text_for(self, incremental: bool) -> str:
        """Return the text of an incremental run, or of a first one."""
        return self.incremental.text if incremental and self.incremental is not None else self.text

    def errors_for(self, incremental: bool) -> RowErrors | None:
        """Return the separated text of an incremental run, or of a first one; None if there is none."""
        errors = self.incremental.errors if incremental and self.incremental is not None else self.errors
        return errors if isinstance(errors, RowErrors) else None

    def good_for(self, incremental: bool) -> str:
        """Return the text of the rows that can be evaluated."""
        errors = self.errors_for(incremental)
        return self.text_for(incremental) if errors is None else errors.good

    def parameters_for(self, incremental: bool) -> tuple[str, ...]:
        """Return the parameters of that text."""
        return self.incremental.parameters if incremental and self.incremental is not None else self.parameters


@dataclass(frozen=True, slots=True)
class FusedQuery:
    """The rows of the joint ``result``: its CTEs with their texts, and the further ``inputs`` that it reads."""

    result: str
    ctes: tuple[tuple[str, str], ...]
    inputs: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The text that is passed to an engine."""
        return fuse(self.ctes, self.result)


@dataclass(frozen=True, slots=True)
class GroupQuery:
    """The union by name of ``results``, each of them one of ``ctes`` or a joint outside of the group.

    ``ctes`` are in topological order: each reads only those before it.
    """

    results: tuple[str, ...]
    ctes: tuple[Cte, ...]

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
        (FusedQuery(result='b', ctes=(('a', 'SELECT * FROM t'), ('b', 'SELECT * FROM a')), inputs=('t',)),)
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
        texts: list[tuple[str, str]] = []
        names: list[str] = []
        for cte in self.ctes:
            separated = cte.errors_for(cte.joint in incremental)
            for number, query in enumerate(separated.queries if separated is not None else (), 1):
                names.append(f"errors of {cte.joint} {number}")
                texts.append((names[-1], query))
            texts.append((cte.joint, cte.good_for(cte.joint in incremental)))
        if not names:
            return None
        last = max(index for index, (name, _) in enumerate(texts) if name == names[-1])
        union = "\nUNION ALL\n".join(f"SELECT * FROM {quoted(name)}" for name in names)
        ctes = (*texts[: last + 1], (_ERRORS, union))
        inside = {cte.joint for cte in self.ctes}
        read = {name for cte in self.ctes for name in cte.upstream}
        return FusedQuery(_ERRORS, ctes, tuple(sorted(read - inside)))

    def proof(self, incremental: Collection[str] = ()) -> Proof:
        """Return when a success of the query that ``fused`` gives proves that there are no errors."""
        separated = {cte.joint: cte.errors_for(cte.joint in incremental) for cte in self.ctes}
        failing = {joint: errors for joint, errors in separated.items() if errors is not None}
        (result, *others) = self.results
        # Spark evaluates of another joint only the rows and columns that its readers need.
        alone = not others and set(failing) == {result}
        return failing[result].proof if alone else "never"

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


def _fused(result: str, ctes: Collection[Cte], incremental: Collection[str]) -> FusedQuery:
    read = {result, *[name for cte in ctes for name in cte.upstream]}
    texts = tuple([(cte.joint, cte.text_for(cte.joint in incremental)) for cte in ctes])
    return FusedQuery(result, texts, tuple(sorted(read.difference([cte.joint for cte in ctes]))))
