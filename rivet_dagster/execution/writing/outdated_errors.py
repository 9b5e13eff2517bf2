"""Which errors of earlier versions a run leaves out, whatever the write strategy: a condition on an error table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rivet_dagster.engines.contract import EngineSession, Frame, Typed
from rivet_dagster.execution.reading.corrupt_records import MALFORMED_RECORD

_ERRORS = "rivet_earlier_errors"


@dataclass(frozen=True)
class OutdatedErrors:
    """The errors for which one of ``conditions``, none of which is ever NULL, is true."""

    conditions: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def among(self, session: EngineSession, errors: Frame) -> bool:
        """Return whether there are any among ``errors``, which have ERROR_COLUMNS."""
        if not self.conditions:
            return False
        with session.views():
            session.register(_ERRORS, errors)
            query = f"SELECT 1 AS one FROM {_ERRORS} WHERE {self._any} LIMIT 1"
            return bool(session.rows(query, self.parameters))

    def left_out(self, session: EngineSession, errors: Frame) -> Frame:
        """Return ``errors`` without them."""
        if not self.conditions:
            return errors
        with session.views():
            session.register(_ERRORS, errors)
            return session.query(f"SELECT * FROM {_ERRORS} WHERE NOT ({self._any})", self.parameters)

    @property
    def _any(self) -> str:
        return " OR ".join(self.conditions)


def outdated_errors(
    sources: Sequence[str] = (), records_of: Sequence[str] = (), before: datetime | None = None
) -> OutdatedErrors:
    """Return all errors of ``sources``, the corrupt records of ``records_of``, and errors found ``before`` a time.

    An error whose time is not known was not found before it.
    """
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    for of, names in ("", sources), (f"code = '{MALFORMED_RECORD}' AND ", records_of):
        own = {f"source_{number}": name for number, name in enumerate(names, len(parameters))}
        conditions += [f"{of}joint IN ({', '.join(f':{name}' for name in own)})"] if own else []
        parameters |= own
    if before is not None:
        conditions.append("found_at IS NOT NULL AND found_at < :found_before")
        parameters["found_before"] = Typed(before, "timestamp")
    return OutdatedErrors(tuple(conditions), parameters)
