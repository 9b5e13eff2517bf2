"""The inline transforms with which the relation of a source is loaded: those that it declares, or none."""

from __future__ import annotations

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.projection import underscored_columns


def transforms(source: SourceJoint) -> Projection:
    """Return the inline transforms of a source."""
    return Projection(source.columns, source.filter, source.limit)


def no_transforms(source: SourceJoint, session: EngineSession, relation: Relation) -> Projection:
    """Return the projection of all columns of ``relation``, with those hidden ones that the source's expressions use.

    Spark has such columns, as `_metadata` of files, only where a relation itself is read.
    """
    underscored = underscored_columns(source.columns, source.filter)
    if not underscored:
        return Projection()
    columns = [name for name, _ in session.columns(session.load(relation, Projection()))]
    known = {name.lower() for name in columns}
    hidden = [name for name in underscored if name.lower() not in known]
    return Projection(tuple([(name, None) for name in (*columns, *hidden)])) if hidden else Projection()
