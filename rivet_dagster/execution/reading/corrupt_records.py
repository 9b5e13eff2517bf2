"""The corrupt records of sources that a quarantining group reads, as errors of these sources."""

from __future__ import annotations

from dataclasses import dataclass

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.execution.reading.source_transforms import no_transforms, transforms
from rivet_dagster.model.relations import Relation

MALFORMED_RECORD = "MALFORMED_RECORD"
"""The code of a record that does not fit the columns of its source."""

_RECORDS, _ERRORS = "rivet_corrupt_records", "rivet_earlier_errors"

_OF_RECORDS = f"""
SELECT
  :joint AS joint, '{MALFORMED_RECORD}' AS code, :table AS expression, CAST(:file AS STRING) AS file,
  CAST(:line AS INT) AS line, 'The record could not be parsed as a row with the columns of the source.' AS message,
  to_json(named_struct('record', record)) AS `row`, CAST(NULL AS STRING) AS `key`
FROM {_RECORDS}
""".strip()


def load_separated(
    session: EngineSession, relation: Relation, source: SourceJoint, untransformed: bool = False
) -> tuple[Frame, Frame] | None:
    """Return the rows of the source, with its inline transforms or without, and its corrupt records as ``record``.

    None if there can be none, or the source has a limit: its rows are any of the first that are read.
    """
    if source.limit is not None:
        return None
    applied = no_transforms(source, session, relation) if untransformed else transforms(source)
    return session.load_separated(relation, applied)


def errors_of_records(session: EngineSession, records: Frame, source: SourceJoint) -> Frame:
    """Return an error with QUERY_COLUMNS for each of the corrupt records of a source."""
    place = {"joint": source.name, "table": source.table, "file": source.file, "line": source.line}
    with session.views():
        session.register(_RECORDS, records)
        return session.query(_OF_RECORDS, place)


@dataclass(frozen=True)
class FoundAnew:
    """Errors that this run has looked for again: all errors of ``sources``, and corrupt records of ``records_of``."""

    sources: tuple[str, ...] = ()
    records_of: tuple[str, ...] = ()

    def among(self, session: EngineSession, errors: Frame) -> bool:
        """Return whether there are any among the ``errors`` of an error table."""
        condition, parameters = self._condition
        with session.views():
            session.register(_ERRORS, errors)
            return bool(session.rows(f"SELECT 1 AS one FROM {_ERRORS} WHERE {condition} LIMIT 1", parameters))

    def left_out(self, session: EngineSession, errors: Frame) -> Frame:
        """Return the ``errors`` of an error table without them."""
        condition, parameters = self._condition
        with session.views():
            session.register(_ERRORS, errors)
            return session.query(f"SELECT * FROM {_ERRORS} WHERE NOT ({condition})", parameters)

    def __bool__(self) -> bool:
        return bool(self.sources or self.records_of)

    @property
    def _condition(self) -> tuple[str, dict[str, str]]:
        parameters: dict[str, str] = {}
        conditions: list[str] = []
        for of, names in ("", self.sources), (f"code = '{MALFORMED_RECORD}' AND ", self.records_of):
            own = {f"source_{number}": name for number, name in enumerate(names, len(parameters))}
            conditions += [f"{of}joint IN ({', '.join(f':{name}' for name in own)})"] if own else []
            parameters |= own
        return " OR ".join(conditions), parameters
