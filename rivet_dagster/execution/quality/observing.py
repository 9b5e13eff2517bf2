"""Checks that hold by the query, or that the engine judges while it writes the rows: no row is read again for them.

What is observed is whether some row violates a check, and how many rows there are: this costs less than the numbers of
violations, which a query counts afterwards where some row does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rivet_dagster.engines.contract import EngineSession, Frame, Observed
from rivet_dagster.model.check_plan import CompiledCheck, InOnePass, Observable
from rivet_dagster.model.proof import Compared, Every, NoNulls, Proof
from rivet_dagster.model.storage import StoredRows

_NESTED = ("array", "map", "struct", "variant")
"""The beginnings of the names of types of which footers have no statistics."""


class ObservedChecks:
    """The observation of those of ``checks`` whose violations are rows that a condition finds, whatever their types.

    Checks are observed together, since each condition that is observed costs time; those of arithmetic by themselves,
    since types decide more often that these cannot be.
    """

    def __init__(self, session: EngineSession, checks: Sequence[CompiledCheck]) -> None:
        self._session = session
        self._checks = checks
        self._names: list[list[str]] = []
        """The names of the checks that are observed together, for each condition that is observed."""
        self._observed: Observed | None = None

    def observe(self, frame: Frame) -> Frame:
        """Return ``frame`` as one that is judged while it is written; itself where that would gain nothing.

        It gains nothing if statistics of the written rows are likely to prove all that could be observed.
        """
        observable = [(check, condition) for check in self._checks if (condition := _condition(check)) is not None]
        if all(_is_likely_to_be_proven(check.queries.proof) for check, _ in observable):
            return frame
        if not self._session.stores_exactly():
            return frame
        types = dict(self._session.columns(frame))
        observable = [each for each in observable if not _is_counted_by_footers(each[0], types)]
        any_of_them = []
        for only_compares in (True, False):
            together = [each for each in observable if each[1].only_compares == only_compares]
            if together:
                any_of_them.append(" OR ".join(f"({condition.sql})" for _, condition in together))
                self._names.append([check.name for check, _ in together])
        self._observed = self._session.observe(frame, any_of_them) if any_of_them else None
        return frame if self._observed is None else self._observed.frame

    def passed(self, batch: StoredRows) -> frozenset[str]:
        """Return the names of the checks that all rows of ``batch`` have passed, by the query or by what was observed.

        Nothing was if the engine has lost it, or has counted other rows than were written, as where it repeated a part
        of its work; or if columns are stored with other types than those that were observed.
        """
        return self._passed_by_query() | self._observed_to_pass(batch)

    def _passed_by_query(self) -> frozenset[str]:
        names = frozenset(check.name for check in self._checks if check.holds_by_query)
        return names if names and self._session.stores_exactly() else frozenset()

    def _observed_to_pass(self, batch: StoredRows) -> frozenset[str]:
        if self._observed is None:
            return frozenset()
        computed = dict(self._session.columns(self._observed.frame))
        if any(computed.get(name) != kind for name, kind in batch.statistics.columns):
            return frozenset()
        together = zip(self._names, self._observed.result(), strict=False)
        return frozenset(name for names, rows in together if rows == batch.statistics.rows for name in names)


def _condition(check: CompiledCheck) -> Observable | None:
    counting = check.queries.counting
    return counting.observable if isinstance(counting, InOnePass) and check.timeout is None else None


def _is_counted_by_footers(check: CompiledCheck, types: Mapping[str, str]) -> bool:
    """Return whether storage counts the violations of a check, also where it fails: the NULLs of one plain column."""
    proof = check.queries.proof
    if not isinstance(proof, NoNulls) or len(proof.columns) > 1:
        return False
    kind = types.get(proof.columns[0])
    return kind is not None and not kind.startswith(_NESTED)


def _is_likely_to_be_proven(proof: Proof | None) -> bool:
    match proof:
        case NoNulls() | Compared():
            return True
        case Every(of=conditions):
            return all(map(_is_likely_to_be_proven, conditions))
    return False
