"""The watermark of a sink: the maximum of a column of its published rows, or the value that a person set instead."""

from __future__ import annotations

from rivet_dagster.catalogs.capabilities.targets import HasWatermarks
from rivet_dagster.compiler.joints import ComputedJoint
from rivet_dagster.engines.contract import EngineSession, Typed
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.storage import Published
from rivet_dagster.model.target import WatermarkColumn
from rivet_dagster.model.watermark import Value, earlier, is_watermark_type, parse
from rivet_dagster.sql.target import greatest_query, target_view


def watermark(
    runtime: Runtime,
    sink: ComputedJoint,
    declared: WatermarkColumn | None,
    published: Published,
    session: EngineSession,
) -> Typed | None:
    """Return the watermark after which rows are read; None if all rows are to be read. Raises RVT-511.

    A value that a person set is used as it is; the maximum of the target is moved back by the declared ``lookback``.
    """
    column, type_ = watermark_column(sink, declared, published)
    catalog = runtime.catalog(published.catalog)
    override = catalog.watermark_override(published) if isinstance(catalog, HasWatermarks) else None
    if override is not None:
        return None if override.value is None else Typed(_parsed(override.value, type_, sink), type_)
    value = _greatest(runtime, sink, published, column, session)
    if value is None:
        return None
    if value != value:
        raise wrong_watermark(sink, f"the greatest value of '{column}' is NaN, which no other value is after")
    lookback = declared.lookback if declared is not None else None
    return Typed(value if lookback is None else _moved_back(value, type_, lookback, sink), type_)


def watermark_column(sink: ComputedJoint, declared: WatermarkColumn | None, published: Published) -> tuple[str, str]:
    """Return the name and type of the watermark column in the published rows. Raises RVT-511."""
    if declared is None:
        raise wrong_watermark(sink, "it has no `watermark_column`")
    wanted = declared.column
    columns = {name.lower(): (name, type_) for name, type_ in published.statistics.columns}
    column = columns.get(wanted.lower())
    if column is None:
        names = [name for name, _ in columns.values()]
        raise wrong_watermark(sink, f"the target has no column '{wanted}'{nearest(wanted, names)}")
    if not is_watermark_type(column[1]):
        raise wrong_watermark(sink, f"the column '{wanted}' is of type {column[1]}, which no watermark can have")
    return column


def wrong_watermark(sink: ComputedJoint, message: str, remediation: str | None = None) -> RivetError:
    """Return RVT-511 at the sink."""
    return RivetError("RVT-511", message, joint=sink.name, file=sink.file, line=sink.line, remediation=remediation)


def _greatest(
    runtime: Runtime, sink: ComputedJoint, published: Published, column: str, session: EngineSession
) -> Value | None:
    catalog = runtime.target_catalog(published.catalog)

    def read() -> Value | None:
        view = target_view(sink.name)
        session.register(view, session.load(catalog.read(published)))
        (row,) = session.rows(greatest_query(view, column))
        greatest: Value | None = row["greatest"]
        return greatest

    greatest: Value | None = catalog.statistics(published).max_of(column, read)
    return greatest


def _moved_back(value: Value, type_: str, lookback: str | float, sink: ComputedJoint) -> Value:
    try:
        return earlier(value, type_, lookback)
    except ValueError as error:
        raise wrong_watermark(sink, f"`lookback` does not fit the watermark: {error}") from None


def _parsed(text: str, type_: str, sink: ComputedJoint) -> Value:
    try:
        return parse(text, type_)
    except ValueError as error:
        remedy = f"Set it again: `rivet-dagster watermark set {sink.name} VALUE`."
        raise wrong_watermark(sink, f"the watermark that was set does not fit its column: {error}", remedy) from None
