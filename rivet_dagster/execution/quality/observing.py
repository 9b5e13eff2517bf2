"""Checks that the engine judges while it writes the rows of a batch, so that no row is read again.

What is observed is whether some row violates a check, and how many rows there are: this costs less than the numbers of
violations, which a query counts afterwards where some row does.
"""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.engines.contract import EngineSession, Frame, Observed
from rivet_dagster.model.check_plan import CompiledCheck, InOnePass
from rivet_dagster.model.proof import Compared, Every, NoNulls, Proof
from rivet_dagster.model.storage import StoredRows


class ObservedChecks:
    """The observation of those of ``checks`` whose violations are rows that a condition finds, whatever their types."""

    def __init__(self, session: EngineSession, checks: Sequence[CompiledCheck]) -> None:
        self._session = session
        self._conditions = {check.name: sql for check in checks if (sql := _condition(check)) is not None}
        proofs = [check.queries.proof for check in checks if check.name in self._conditions]
        self._is_worthwhile = not all(map(_is_likely_to_be_proven, proofs))
        self._observed: Observed | None = None

    def observe(self, frame: Frame) -> Frame:
        """Return ``frame`` as one that is judged while it is written; itself where that would gain nothing.

        It gains nothing if statistics of the written rows are likely to prove all that could be observed.
        """
        if self._is_worthwhile:
            self._observed = self._session.observe(frame, list(self._conditions.values()))
        return frame if self._observed is None else self._observed.frame

    def passed(self, batch: StoredRows) -> frozenset[str]:
        """Return the names of the checks that all rows of ``batch`` have passed.

        None have if the engine has lost what it observed, or has counted other rows than were written, as where it
        repeated a part of its work; or if columns are stored with other types than those that were observed.
        """
        if self._observed is None:
            return frozenset()
        computed = dict(self._session.columns(self._observed.frame))
        result = self._observed.result()
        if result is None or any(computed.get(name) != kind for name, kind in batch.statistics.columns):
            return frozenset()
        rows, violated = result
        if rows != batch.statistics.rows:
            return frozenset()
        return frozenset(name for name, fails in zip(self._conditions, violated, strict=True) if not fails)


def _condition(check: CompiledCheck) -> str | None:
    counting = check.queries.counting
    return counting.observable if isinstance(counting, InOnePass) and check.timeout is None else None


def _is_likely_to_be_proven(proof: Proof | None) -> bool:
    match proof:
        case NoNulls() | Compared():
            return True
        case Every(of=conditions):
            return all(map(_is_likely_to_be_proven, conditions))
    return False
