"""The rows of an external asset as a frame: one relation as it is, several as their union."""

from __future__ import annotations

from rivet_dagster.catalogs.external_assets import Columns, ExternalRows
from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.execution.reading.source_transforms import no_transforms, transforms
from rivet_dagster.model.relations import Relation
from rivet_dagster.sql.write_strategies.alignment import projection

_PART = "rivet_part"


def external_frame(session: EngineSession, rows: ExternalRows) -> Frame:
    """Return a frame with the columns of ``rows``. Raises RVT-503, RVT-519."""
    if rows.relation is not None:
        return session.load(rows.relation)
    return session.union_by_name([_part(session, relation, own, rows.columns) for relation, own in rows.parts])


def external_source_frame(
    session: EngineSession, rows: ExternalRows, joint: SourceJoint, untransformed: bool = False
) -> Frame:
    """Return a frame of ``rows`` with the inline transforms of ``joint``, or without. Raises RVT-503, RVT-519."""
    if rows.relation is not None:
        applied = no_transforms(joint, session, rows.relation) if untransformed else transforms(joint)
        return session.load(rows.relation, applied)
    if untransformed:
        return external_frame(session, rows)
    with session.views():
        session.register(joint.name, external_frame(session, rows))
        return session.query(joint.sql)


def _part(session: EngineSession, relation: Relation, own: Columns, columns: Columns) -> Frame:
    frame = session.load(relation)
    if own == columns:
        return frame
    with session.views():
        session.register(_PART, frame)
        return session.query(projection(columns, own, _PART))
