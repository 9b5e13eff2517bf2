"""The context of one run of a group, shared by all its phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.engines.contract import Engine, EngineSession, QueryPlan
from rivet_dagster.execution.progress import PhaseClock
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.snapshots import Snapshots
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.inputs import Position
from rivet_dagster.model.partitions import Window


class OneSession:
    """A session of an engine, with these settings, that begins with its first use."""

    def __init__(self, engine: Engine, settings: Mapping[str, str]) -> None:
        self._engine = engine
        self._settings = settings
        self._session: EngineSession | None = None

    @property
    def session(self) -> EngineSession:
        """The session, the same one with each access."""
        if self._session is None:
            self._session = self._engine.session()
            if self._settings:
                self._session.configure(self._settings)
        return self._session

    def close(self) -> None:
        """End the session, if it has begun."""
        if self._session is not None:
            self._session.close()


@dataclass(frozen=True)
class ThisRun:
    """One run of a group, or of some of its joints, that publishes as ``identity``.

    ``given`` are handles on joints of other groups; ``started`` is the time when it began, in UTC; ``window`` holds the
    partitions that it covers, if the group has partitions. With ``full_refresh`` it reads and replaces what a first run
    would, and what is published does not count. ``plans`` collects the query plans of the joints that were
    written, and ``inputs`` the positions of the joints and sources that were read. ``snapshots`` are those of the
    databases that it reads.
    """

    runtime: Runtime
    group: FusedGroup
    given: Mapping[str, MaterializedRef]
    clock: PhaseClock
    started: datetime
    one_session: OneSession
    snapshots: Snapshots
    identity: str = ""
    window: Window | None = None
    full_refresh: bool = False
    plans: dict[str, QueryPlan] = field(default_factory=dict)
    inputs: dict[str, Position] = field(default_factory=dict)

    @property
    def session(self) -> EngineSession:
        """The one session of the run."""
        return self.one_session.session
