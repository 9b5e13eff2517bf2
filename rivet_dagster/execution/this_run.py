"""The context of one run of a group, shared by all its phases: its session, and the snapshots that it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from rivet_dagster.catalogs.capabilities.sources import HasSnapshots, Snapshot
from rivet_dagster.catalogs.registry import catalog_class
from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.engines.contract import Engine, EngineSession, QueryPlan
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.progress import PhaseClock
from rivet_dagster.execution.reading.inputs import source_reference
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.external_assets import is_external
from rivet_dagster.model.inputs import Position
from rivet_dagster.model.partitions import Window


class Snapshots:
    """One snapshot of each catalog that has them, of whose tables a run reads those of the joints ``names``.

    Each is taken when the first of its tables is read; all are held until ``release``, after which the next ones are
    new.
    """

    def __init__(self, runtime: Runtime, names: Iterable[str]) -> None:
        self._runtime = runtime
        specs = {spec.name: spec for spec in runtime.assembly.catalogs}
        joints = [joint for name in sorted(names) if isinstance(joint := runtime.assembly.joint(name), SourceJoint)]
        self._sources = [
            joint
            for joint in joints
            if not is_external(joint) and issubclass(catalog_class(specs[joint.catalog].type), HasSnapshots)
        ]
        self._tables = Counter(source.catalog for source in self._sources)
        self._held: dict[str, Snapshot] = {}

    @property
    def refs(self) -> Mapping[str, MaterializedRef]:
        """Handles on the rows of the sources at the snapshots that are held when they are read."""
        return {source.name: self._ref(source) for source in self._sources}

    def release(self) -> None:
        """End the snapshots that are held."""
        while self._held:
            self._held.popitem()[1].close()

    def finish(self) -> None:
        """End the snapshots that are held, after the last read. Raises RVT-510 if one had ended before."""
        broken = next((why for snapshot in self._held.values() if (why := snapshot.broken()) is not None), None)
        self.release()
        if broken is not None:
            raise broken

    @contextmanager
    def held(self) -> Iterator[None]:
        """Release the snapshots at the end of the block; an error in it names one that has been lost meanwhile."""
        try:
            yield
        except RivetError as error:
            lost = next((why for snapshot in self._held.values() if (why := snapshot.lost()) is not None), None)
            if lost is None:
                raise
            raise lost from error
        else:
            self.finish()
        finally:
            self.release()

    def _ref(self, source: SourceJoint) -> MaterializedRef:
        return source_reference(
            self._runtime,
            source,
            lambda: self._snapshot(source.catalog).relation(source.table, source.options),
            lambda: self._snapshot(source.catalog).position(source.table, source.options),
        )

    def _snapshot(self, catalog: str) -> Snapshot:
        if catalog not in self._held:
            opened = self._runtime.catalog(catalog)
            assert isinstance(opened, HasSnapshots)
            self._held[catalog] = opened.snapshot(self._tables[catalog])
        return self._held[catalog]


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
