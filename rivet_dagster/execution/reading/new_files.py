"""The new files of the landing zones that a group reads: listed once, read, and told for the version's record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.engines.contract import EngineSession, Frame
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
from rivet_dagster.model.storage import Projection


@dataclass
class NewFiles:
    """The files of one zone that a reader reads in one attempt; ``schema`` is known when they have been looked into."""

    runtime: Runtime
    source: SourceJoint
    files: tuple[LandedFile, ...]
    earlier: tuple[LandedFile, ...]
    schema: str | None

    def ref(self) -> MaterializedRef:
        """A handle on their rows."""
        return MaterializedRef(self.source.name, self.runtime.engine(self.source.engine).session, self._frame)

    def consumed(self) -> ConsumedFiles:
        """What there is to remember of them."""
        return ConsumedFiles(self.files, self.earlier, self.schema)

    def _frame(self, session: EngineSession) -> Frame:
        source = self.source
        with placed(source):
            zone = landing_zone(self.runtime, source)
            relation = zone.relation(self.files)
            if relation.schema is None:
                # A zone where all is read tells its columns yet; one where nothing is left told them last time.
                self.schema = self._seen(session, self.files) or self.schema or self._seen(session, self.earlier)
                relation = with_schema(relation, self.schema, source)
            return session.load(relation, Projection(source.columns, source.filter, source.limit))

    def _seen(self, session: EngineSession, files: Sequence[LandedFile]) -> str | None:
        """The schema of ``files``; None without any, and where they are so empty that they have no columns."""
        frame = session.load(landing_zone(self.runtime, self.source).relation(files)) if files else None
        return session.schema(frame) if frame is not None and session.columns(frame) else None


def new_files(runtime: Runtime, group: FusedGroup) -> list[NewFiles]:
    """What has come to each landing zone of the group since its published version was made.

    Raises RVT-321, RVT-403.
    """
    sources = landing_sources(runtime.assembly, group)
    # Where another version than the staged one's base is read here, that one will not be published.
    last = last_version(runtime, runtime.assembly.joint(group.exit)) if sources else None
    landed = last.landed if last else {}
    return [_new_files(runtime, source, landed.get(source.name, NOTHING_CONSUMED)) for source in sources]


def refs(found: Sequence[NewFiles]) -> dict[str, MaterializedRef]:
    """Handles on the rows of the new files, by source."""
    return {one.source.name: one.ref() for one in found}


def consumed_files(found: Sequence[NewFiles]) -> Mapping[str, ConsumedFiles]:
    """The record of a version that was made of them, by source."""
    return {one.source.name: one.consumed() for one in found}


def _new_files(runtime: Runtime, source: SourceJoint, last: ConsumedFiles) -> NewFiles:
    with placed(source):
        present = landing_zone(runtime, source).files()
    known = last.known
    new = tuple(file for file in present if file not in known)
    return NewFiles(runtime, source, new, tuple(file for file in present if file in known), last.schema)
