"""The snapshots at which one run of a group reads the tables of databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from rivet_dagster.catalogs.capabilities.sources import HasSnapshots, Snapshot
from rivet_dagster.catalogs.registry import catalog_class
from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.inputs import source_reference
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.external_assets import is_external


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
            found = self._runtime.catalog(catalog)
            assert isinstance(found, HasSnapshots)
            self._held[catalog] = found.snapshot(self._tables[catalog])
        return self._held[catalog]
