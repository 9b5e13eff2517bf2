"""The corrupt records of sources that a quarantining group reads, as errors of these sources."""

from __future__ import annotations

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.execution.reading.source_transforms import no_transforms, transforms
from rivet_dagster.model.relations import Relation

MALFORMED_RECORD = "MALFORMED_RECORD"
"""The code of a record that does not fit the columns of its source."""

_RECORDS = "rivet_corrupt_records"

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
