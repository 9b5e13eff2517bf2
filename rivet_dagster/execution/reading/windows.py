"""A window of partitions when reading: the rows in it, and the values of the partition parameters of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.sql.balance import in_parentheses
from rivet_dagster.sql.partition_filter import rows_in_window
from rivet_dagster.sql.projection import projection
from rivet_dagster.sql.row_errors.site import raises
from rivet_dagster.sql.target import parameter


def within(ref: MaterializedRef, joint: CompiledJoint, window: Window | None) -> MaterializedRef:
    """Return a handle on the rows of ``joint`` that lie in ``window``; on all rows if it has other or no partitions.

    The frame raises RVT-322 if the joint's partition column is missing or has a type without partitions.
    """
    partitions = joint.partitions
    if window is None or partitions is None or not partitions.chosen_by(window.partitions):
        return ref

    def narrowed(session: EngineSession, frame: Frame) -> Frame:
        kind = _kind(partitions, session.columns(frame), joint)
        whole = f"rivet_whole_{joint.name}"
        session.register(whole, frame)
        return session.query(*rows_in_window(whole, partitions, kind, window))

    return ref.with_rows(narrowed)


def within_untransformed(ref: MaterializedRef, source: SourceJoint, window: Window | None) -> MaterializedRef:
    """Return a handle on the rows of ``source`` before its inline transforms, as ``within`` on those behind them.

    A row whose partition column cannot be evaluated is in every window.
    """
    partitions = source.partitions
    if window is None or partitions is None or not partitions.chosen_by(window.partitions):
        return ref
    texts = {alias.lower(): text for alias, text in source.columns}

    def narrowed(session: EngineSession, frame: Frame) -> Frame:
        whole = f"rivet_whole_{source.name}"
        session.register(whole, frame)
        transformed = session.query(projection(whole, source.columns, None, None))
        kind = _kind(partitions, session.columns(transformed), source)
        text = texts.get(partitions.column.lower())
        if text is None:
            return session.query(*rows_in_window(whole, partitions, kind, window))
        return session.query(*rows_in_window(whole, partitions, kind, window, text, raises(in_parentheses(text))))

    return ref.with_rows(narrowed)


def _kind(partitions: Partitions, columns: Sequence[tuple[str, str]], joint: CompiledJoint) -> str:
    try:
        kind = partitions.type_in(columns)
    except ValueError as error:
        raise RivetError("RVT-322", str(error), joint=joint.name, file=joint.file, line=joint.line) from error
    assert kind is not None
    return kind


def bound(
    assembly: CompiledAssembly, needed: Mapping[str, tuple[str, ...]], window: Window | None
) -> Mapping[str, Any]:
    """Return the values of the partition parameters; ``needed`` names those that the query uses, by joint.

    Raises RVT-323 if they are needed and there is no window.
    """
    if window is not None:
        return window.parameters
    for name, used in needed.items():
        joint = assembly.joint(name)
        raise RivetError(
            "RVT-323",
            f"'{name}' is not stored, and only a run of its partitions knows {', '.join(map(parameter, used))}",
            joint=name,
            file=joint.file,
            line=joint.line,
            remediation="Store it with `eager: true`, or give what reads it the same partitions.",
        )
    return {}
