"""What every catalog can do: find tables, and stage, audit, publish or discard a new version of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.location import Location
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import Files, Relation
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import Base, LandedFile, Published, Record, Rest, Staged, Statistics, Touched, Version
from rivet_dagster.model.watermark import Override

DEAD_AFTER = 60.0
"""Seconds without a sign of life after which nobody works on a staged version any more."""


class LandingZone(Protocol):
    """A table to which files come, each told apart from the others, so that a reader can leave out what it has read."""

    def files(self) -> tuple[LandedFile, ...]:
        """The files that are there now, in order. Raises RVT-321 where there is no landing zone, RVT-403."""

    def relation(self, files: Sequence[LandedFile]) -> Files:
        """How an engine reads exactly these files."""

    def archive(self, files: Iterable[LandedFile], name: str) -> None:
        """Move those of ``files`` that are still there, unchanged, to a place called ``name`` that nobody reads.

        A file that has changed, or has come, meanwhile stays; none is overwritten. Raises RVT-410 where some could not
        be moved; all others are.
        """


class Catalog(Protocol):
    """A place where tables live. Constructing one contacts nothing.

    Subclasses are found by entry point in the group ``rivet_dagster.catalogs``, named by their ``type``.
    """

    name: str
    type: ClassVar[str]
    strategies: ClassVar[frozenset[str]]
    """The write strategies this catalog can do."""
    options: ClassVar[frozenset[str]]
    """The keys of its declaration, besides ``type``."""

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """What is wrong with the values of ``options``: a sentence by key, for a missing one too.

        A value that still holds ``${`` is not judged.
        """

    @classmethod
    def refuses_landing(cls, options: Mapping[str, Any], table: str) -> str | None:
        """Why ``table`` of a catalog with these ``options`` cannot be a landing zone; None where it can.

        A value that still holds ``${`` is not judged.
        """
        return f"a catalog of the type {cls.type} has no landing zones"

    @classmethod
    def refuses_listing(cls, options: Mapping[str, Any], table: str) -> str | None:
        """Why ``files`` cannot tell those of ``table`` of a catalog with these ``options``; None where it can.

        A value that still holds ``${`` is not judged.
        """
        return f"a catalog of the type {cls.type} has no files to list"

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, own: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Return the problems of ``table``, and of the options ``own`` of the joint that reads or writes it.

        ``options`` are the catalog's; a value that still holds ``${`` is not judged.
        """
        return ()

    @classmethod
    def resolved(cls, options: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
        """These expanded ``options`` as they tell of places on this machine; ``root`` is the project's directory."""
        return options

    @classmethod
    def written_places(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Where the rows of a ``table`` are that is published in a catalog with these ``options``.

        The names alone tell: nothing is looked at. None are told that nobody can know before ``${`` is expanded.
        """
        return ()

    @classmethod
    def read_places(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Where the rows are that a source on ``table`` reads, told as ``written_places`` does.

        With ``look``, ``options`` are resolved, and links on this machine are followed.
        """
        return ()

    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        """``spec`` with ``${VAR}`` expanded; ``root`` is the project's directory, where relative paths start.

        Raises RVT-103, RVT-104, RVT-105.
        """

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return what sessions of that type of engine need before they start, to reach these tables."""
        return SessionNeeds()

    def source(self, table: str, options: Mapping[str, Any]) -> Relation:
        """What stands under ``table`` now. Raises RVT-403 where nothing does."""

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """A short text that changes when the table's data does, made without an engine. Raises RVT-403."""

    def files(self, table: str, options: Mapping[str, Any]) -> tuple[LandedFile, ...]:
        """The files that ``table`` is read from now, in order; none where the first has yet to come. Raises RVT-403."""

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """The columns that an engine would find under ``table``, told without an engine; None where that is not known.

        A type that only an engine can tell is None. Raises RVT-403.
        """

    def landing_zone(self, table: str, options: Mapping[str, Any]) -> LandingZone:
        """The landing zone ``table``; nothing is looked at yet."""

    def current(self, table: str) -> Published | None:
        """The published version that readers see."""

    def tables(self, prefix: str) -> tuple[str, ...]:
        """The names of the published tables that begin with ``prefix``, in order."""

    def published_by(self, table: str, identity: str) -> Published | None:
        """The version that ``identity`` published, whatever came after it; None where that is not known of any.

        It is known for longer than anybody retries a run, so ``read`` may find that the version has been expired; then
        its columns are those of a later one.
        """

    def versions(self, table: str) -> tuple[Version, ...]:
        """All versions that somebody could want: the published ones, the newest first, then those kept back."""

    def read(self, published: Published) -> Relation:
        """How an engine reads exactly that version. Raises RVT-401 where it has been expired."""

    def statistics(self, published: Published) -> Statistics:
        """What storage tells of that version without reading its rows, bounds of columns too. Raises RVT-401."""

    def greatest(self, published: Published, column: str) -> Any:
        """The greatest value of a column of that version, read without an engine; None where all are NULL.

        NaN is greater than all others; a TIMESTAMP has a time zone, a TIMESTAMP_NTZ none. Raises RVT-401, RVT-407.
        """

    def watermark_override(self, published: Published) -> Override | None:
        """What a person set in place of the watermark of that version."""

    def override_watermark(self, published: Published, override: Override) -> None:
        """Set it, to hold until another version is published. Raises RVT-404, and RVT-405 where one has been."""

    def stage(self, table: str, options: Mapping[str, Any]) -> Staged:
        """Begin a new version that no reader sees. Raises RVT-402, RVT-404."""

    def put(self, staged: Staged, rows: Any) -> bool:
        """Add the rows of a pyarrow.RecordBatchReader to ``staged`` without an engine. Raises RVT-404.

        False, with nothing read, where that takes an engine: for these types, or for this storage.
        """
        return False

    def base(self, staged: Staged) -> Base | None:
        """The version that ``staged`` builds upon; None where the table did not exist. Raises RVT-405."""

    def written(self, staged: Staged) -> tuple[Relation, Statistics] | None:
        """What the engine has written to ``staged`` so far, which stays readable; None where that is nothing.

        Raises RVT-407.
        """

    def carry(self, staged: Staged, touched: Touched) -> Rest:
        """Let ``staged`` go on with the table: what is not ``touched`` of its base becomes part of it, unread.

        The table keeps its permissions. Called once, after the first write to ``staged``. Raises RVT-404, RVT-407.
        """

    def audit(self, staged: Staged) -> tuple[Relation, Statistics]:
        """What was written to ``staged``, to be judged before it is published. Raises RVT-402, RVT-407."""

    def beat(self, staged: Staged) -> None:
        """Show that the run that builds ``staged`` is alive; whoever shows nothing for DEAD_AFTER counts as dead.

        Raises RVT-406 where the run has counted as dead already.
        """

    def publish(self, staged: Staged, identity: str, record: Record | None = None) -> Published:
        """Switch readers to ``staged`` in one atomic step and remember ``identity``, the run that did it.

        ``record`` says what it did (default: it replaced all rows).
        Raises RVT-404 where the place cannot be written to, RVT-405 where another run published since ``staged`` was
        begun, RVT-406 as ``beat`` does, RVT-407 where what was written is damaged or not what was judged.
        """

    def discard(self, staged: Staged) -> None:
        """Remove all of ``staged``; what is published stays as it is."""

    def keep_back(self, staged: Staged, identity: str = "") -> None:
        """Leave ``staged``, complete but not published, to a person: no sweep removes it.

        Who publishes it then does so for ``identity``, the run that made it, too: ``published_by`` knows both.
        Raises RVT-404, RVT-406.
        """

    def take_up(self, table: str, version: str) -> Staged:
        """A version that was kept back, to be published upon what is published now, or discarded. Raises RVT-408."""

    def restage(self, table: str, version: str) -> Staged:
        """A new version with the rows of an older published one, to be published. Raises RVT-402, RVT-404, RVT-408."""

    def evict(self, published: Published) -> None:
        """Remove the table if that version is still what readers see: its rows are not needed any more."""

    def building(self) -> tuple[str, ...]:
        """The names of what is staged and neither dead nor kept back."""

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove what runs that are dead had staged, and give the names of it; a living run loses nothing.

        A table that cannot be swept keeps no other from it: ``failed`` is called with each error, or they are raised
        together at the end.
        """

    def uri(self, table: str) -> str:
        """Where a person finds the table."""

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Whether tables can be read here and, if a project ``publishes`` here, switched; all stays as it was.

        No engine is started for it. What no engine is needed to find also names what ``sweep`` would remove.
        """
        return ()
