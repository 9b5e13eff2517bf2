"""The new files of the landing zones that a group reads, listed once for reading them and for the version's record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import PositionUnknown, RivetError
from rivet_dagster.execution.reading.landing import (
    appends,
    consumed_by,
    landing_sources,
    landing_zone,
    last_tables,
    with_schema,
)
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.sources import load_separated, no_transforms, transforms
from rivet_dagster.execution.row_error import locating_errors
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.inputs import ConsumedFiles, LandedFile
from rivet_dagster.model.relations import Relation


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

        def handle(untransformed: bool) -> MaterializedRef:
            return MaterializedRef(
                self.source.name,
                open_session,
                lambda session: self._frame(session, untransformed),
                separated=lambda session: self._separated(session, untransformed),
                untransformed=None if untransformed else handle(True),
            )

        return handle(False)

    def consumed(self) -> ConsumedFiles:
        """Return the consumed files to record in the version."""
        return ConsumedFiles(self.files, self.earlier, self.schema)

    def _frame(self, session: EngineSession, untransformed: bool) -> Frame:
        with locating_errors(self.source):
            relation = self._relation(session, session.load)
            applied = no_transforms(self.source, session, relation) if untransformed else transforms(self.source)
            return session.load(relation, applied)

    def _separated(self, session: EngineSession, untransformed: bool) -> tuple[Frame, Frame] | None:
        """Return the rows without corrupt records, and these; None if there can be none."""

        def load(relation: Relation) -> Frame:
            separated = load_separated(session, relation, self.source, untransformed)
            return session.load(relation) if separated is None else separated[0]

        with locating_errors(self.source):
            return load_separated(session, self._relation(session, load), self.source, untransformed)

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
    """Return the files of each landing zone of the group whose rows have not been published by all that want them.

    If the group's table holds only new rows, these are the tables that its readers publish: what one of them has not
    published is read again. If ``all_are_new``, all files are among them. Raises RVT-321, RVT-403, RVT-420, and RVT-421
    if another table would have rows twice.
    """
    sources = landing_sources(runtime.assembly, group)
    return [_new_files(runtime, group, source, all_are_new) for source in sources]


def refs(zones: Sequence[NewFiles]) -> dict[str, MaterializedRef]:
    """Return handles on the rows of the new files, by source."""
    return {zone.source.name: zone.ref() for zone in zones}


def consumed_files(zones: Sequence[NewFiles]) -> Mapping[str, ConsumedFiles]:
    """Return the consumed files to record in a version that was made of the new files, by source."""
    return {zone.source.name: zone.consumed() for zone in zones}


def _new_files(runtime: Runtime, group: FusedGroup, source: SourceJoint, all_are_new: bool) -> NewFiles:
    # Published versions first: if another one follows while the files are listed, this one will not be published.
    consumed = _consumed(runtime, group, source, all_are_new)
    with locating_errors(source):
        present = landing_zone(runtime, source).files()
    schemas = [files.schema for files in consumed.values()]
    known: frozenset[LandedFile] = frozenset()
    if not all_are_new:
        known = frozenset.intersection(*(files.known for files in consumed.values()))
    new = tuple(file for file in present if file not in known)
    if not all_are_new:
        _refuse_twice(runtime, group, new, consumed)
    earlier = tuple(file for file in present if file in known)
    return NewFiles(runtime, source, new, earlier, next(filter(None, schemas), None))


def _consumed(runtime: Runtime, group: FusedGroup, source: SourceJoint, all_are_new: bool) -> dict[str, ConsumedFiles]:
    """Return the files that each of the last tables has published; if ``all_are_new``, as far as they are known."""
    consumed = {}
    for table in last_tables(runtime.assembly, group):
        try:
            consumed[table.name] = consumed_by(runtime, group, source, table)
        except PositionUnknown:
            if not all_are_new:
                raise
    return consumed


def _refuse_twice(
    runtime: Runtime, group: FusedGroup, new: Sequence[LandedFile], consumed: Mapping[str, ConsumedFiles]
) -> None:
    """Raise RVT-421 if a table that appends has published rows of these files, and another one has not."""
    appending = [name for name in consumed if appends(runtime.assembly.group(name))]
    for file in new:
        done = [name for name in appending if file in consumed[name].known]
        if done:
            missing = ", ".join(name for name, files in consumed.items() if file not in files.known)
            message = (
                f"'{done[0]}' has appended the rows of {file.path}, and not all tables have published them "
                f"({missing}): from '{group.exit}' it would get them again"
            )
            remedy = (
                f"Run {missing} first, without '{group.exit}', which still holds these rows; or refresh all of them in "
                "one run: `--full-refresh`."
            )
            raise RivetError("RVT-421", message, joint=group.exit, remediation=remedy)
