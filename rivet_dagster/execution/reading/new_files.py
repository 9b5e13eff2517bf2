"""The new files of the landing zones that a group reads, listed once for reading them and for the version's record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rivet_dagster.catalogs.forgotten import forgotten
from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.execution.reading.corrupt_records import load_apart
from rivet_dagster.execution.reading.inputs import placed
from rivet_dagster.execution.reading.landing import (
    NOTHING_CONSUMED,
    landing_sources,
    landing_zone,
    last_version,
    with_schema,
)
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.inputs import ConsumedFiles, LandedFile
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Projection


@dataclass
class NewFiles:
    """The new files of one landing zone in one attempt of a run, and the ``earlier`` ones, which are already consumed.

    ``schema`` is that of the last run until the new files have been read.
    """

    runtime: Runtime
    source: SourceJoint
    files: tuple[LandedFile, ...]
    earlier: tuple[LandedFile, ...]
    schema: str | None

    def ref(self) -> MaterializedRef:
        """Return a handle on the rows of the new files."""
        open_session = self.runtime.engine(self.source.engine).session
        return MaterializedRef(self.source.name, open_session, self._frame, apart=self._apart)

    def consumed(self) -> ConsumedFiles:
        """Return the consumed files to record in the version."""
        return ConsumedFiles(self.files, self.earlier, self.schema)

    def _frame(self, session: EngineSession) -> Frame:
        source = self.source
        with placed(source):
            relation = self._relation(session, session.load)
            return session.load(relation, Projection(source.columns, source.filter, source.limit))

    def _apart(self, session: EngineSession) -> tuple[Frame, Frame] | None:
        """Return the rows without corrupt records, and these; None if there can be none."""

        def load(relation: Relation) -> Frame:
            apart = load_apart(session, relation, self.source)
            return session.load(relation) if apart is None else apart[0]

        with placed(self.source):
            return load_apart(session, self._relation(session, load), self.source)

    def _relation(self, session: EngineSession, load: Callable[[Relation], Frame]) -> Relation:
        """Return the new files; their columns, and those of files like them, are those of the frame that is loaded."""
        zone = landing_zone(self.runtime, self.source)
        relation = zone.relation(self.files)
        if relation.schema is not None:
            return relation

        def schema_of(files: Sequence[LandedFile]) -> str | None:
            """Return the schema of ``files``; None without files, or if they are empty and have no columns."""
            frame = load(zone.relation(files)) if files else None
            return session.schema(frame) if frame is not None and session.columns(frame) else None

        # Without new files, use the schema of the last run, else that of files that are already consumed.
        self.schema = schema_of(self.files) or self.schema or schema_of(self.earlier)
        return with_schema(relation, self.schema, self.source)


def new_files(runtime: Runtime, group: FusedGroup, all_are_new: bool = False) -> list[NewFiles]:
    """Return the files that were added to each landing zone of the group since its published version was made.

    If ``all_are_new``, those that it has consumed are among them. Raises RVT-321, RVT-403, RVT-420.
    """
    sources = landing_sources(runtime.assembly, group)
    # If another run has published since the staged version was begun, the staged version will not be published.
    last = last_version(runtime, runtime.assembly.joint(group.exit)) if sources else None
    if last is not None and last.unknown_before is not None and not all_are_new:
        raise forgotten(last)
    landed = last.landed if last else {}
    consumed = {name: replace(last, files=(), earlier=()) if all_are_new else last for name, last in landed.items()}
    return [_new_files(runtime, source, consumed.get(source.name, NOTHING_CONSUMED)) for source in sources]


def refs(zones: Sequence[NewFiles]) -> dict[str, MaterializedRef]:
    """Return handles on the rows of the new files, by source."""
    return {zone.source.name: zone.ref() for zone in zones}


def consumed_files(zones: Sequence[NewFiles]) -> Mapping[str, ConsumedFiles]:
    """Return the consumed files to record in a version that was made of the new files, by source."""
    return {zone.source.name: zone.consumed() for zone in zones}


def _new_files(runtime: Runtime, source: SourceJoint, last: ConsumedFiles) -> NewFiles:
    with placed(source):
        present = landing_zone(runtime, source).files()
    known = last.known
    new = tuple(file for file in present if file not in known)
    return NewFiles(runtime, source, new, tuple(file for file in present if file in known), last.schema)
