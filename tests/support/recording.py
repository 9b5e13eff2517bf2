"""An engine that runs nothing and records its queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.engines.contract import Typed
from rivet_dagster.execution.reading import inputs as reading
from rivet_dagster.execution.reading import rendering
from rivet_dagster.execution.reading.inputs import frames
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.rendering import render_for_run
from rivet_dagster.model.storage import Published, Statistics
from rivet_dagster.sql.fusion import union_by_name

STARTED = datetime(2026, 1, 1, tzinfo=UTC)


class RecordingSession:
    """A session in which a frame is the name or the text from which it was made."""

    def __init__(self) -> None:
        self.recorded_query: list[tuple[str, Mapping[str, Any]]] = []
        self.views: set[str] = set()

    def register(self, name: str, frame: Any) -> None:
        """Record a view."""
        self.views.add(name)

    def load(self, relation: Any, projection: Any = None) -> Any:
        """Return the relation itself."""
        return relation

    def query(self, text: str, parameters: Mapping[str, Any]) -> str:
        """Record the query."""
        self.recorded_query.append((text, parameters))
        return text


class Handles(dict[str, MaterializedRef]):
    """Handles on any joint."""

    def get(self, name: str, default: Any = None) -> MaterializedRef:
        """Return a handle that only the recording session can use."""
        return MaterializedRef(name, RecordingSession, lambda _: name)


class Tables:
    """A catalog in which either every table is published or none."""

    def __init__(self, published: bool) -> None:
        self._published = published

    def current(self, table: str) -> Published | None:
        """Return a version without rows."""
        return Published("", table, "v1", "", Statistics(0, 0), 0) if self._published else None

    def read(self, published: Published) -> str:
        """Return the name of the table."""
        return published.table


class RecordingRuntime:
    """The parts of a runtime that querying a group's rows needs."""

    def __init__(self, assembly: CompiledAssembly, published: bool) -> None:
        self.assembly = assembly
        self._tables = Tables(published)

    def target_catalog(self, name: str) -> Tables:
        """Return the only catalog."""
        return self._tables

    def values_of(self, parameters: Collection[str]) -> dict[str, Any]:
        """Return nothing: no variable comes from the environment."""
        return {}

    def passes_arrow(self, joint: str, group: str) -> bool:
        """Return False: all rows are read in place."""
        return False


def recorded_query(
    monkeypatch: pytest.MonkeyPatch, plan: CompiledAssembly, group: FusedGroup, later: bool, joint: str | None = None
) -> tuple[str | None, Sequence[Mapping[str, Any]], set[str]]:
    """Return the text, parameters and views that the engine gets for the group or a joint, in a first or later run."""
    monkeypatch.setattr(rendering, "watermark", lambda *_: Typed(7, "int"))
    monkeypatch.setattr(
        reading, "partition_values", lambda _, needed, __: {name: 0 for names in needed.values() for name in names}
    )
    runtime: Any = RecordingRuntime(plan, published=later)
    session: Any = RecordingSession()
    rendered = render_for_run(runtime, group, joint or group.exit, STARTED, session)
    texts = frames(runtime, rendered, session, Handles())
    assert texts == [text for text, _ in session.recorded_query]
    return union_by_name(texts) or None, [values for _, values in session.recorded_query], session.views
