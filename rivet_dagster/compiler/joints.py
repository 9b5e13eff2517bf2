"""The joints of a plan: each of one type, with the fields that this type has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.inputs import Landing
from rivet_dagster.model.partitions import Partitions
from rivet_dagster.model.schema import NONE, Field
from rivet_dagster.model.step_options import StepOptions
from rivet_dagster.model.text_lines import FileLocation, Stretch, in_file, locate_line


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column of a joint."""

    joint: str
    column: str


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """The columns from which an output column is computed: of the direct upstream, and of the sources.

    ``sources`` is None where they are not certain. Columns that only filter, join or group rows are not listed.
    """

    column: str
    upstream: tuple[ColumnReference, ...]
    sources: tuple[ColumnReference, ...] | None


class LazyLineage(Sequence[ColumnLineage]):
    """The entries that ``made`` returns, each time that they are looked at; equal to a tuple of them.

    >>> LazyLineage(lambda: (ColumnLineage("one", (), ()),)) == (ColumnLineage("one", (), ()),)
    True
    """

    __slots__ = ("_made",)

    def __init__(self, made: Callable[[], tuple[ColumnLineage, ...]]) -> None:
        self._made = made

    @overload
    def __getitem__(self, index: int) -> ColumnLineage: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ColumnLineage, ...]: ...

    def __getitem__(self, index: int | slice) -> ColumnLineage | tuple[ColumnLineage, ...]:
        return self._made()[index]

    def __len__(self) -> int:
        return len(self._made())

    def __iter__(self) -> Iterator[ColumnLineage]:
        return iter(self._made())

    def __eq__(self, other: object) -> bool:
        return self._made() == tuple(other) if isinstance(other, tuple | LazyLineage) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._made())

    def __repr__(self) -> str:
        return repr(self._made())

    def __reduce__(self) -> tuple[type[tuple[Any, ...]], tuple[tuple[ColumnLineage, ...]]]:
        return tuple, (self._made(),)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Joint:
    """The attributes of joints of every type.

    ``group`` is its fused group, ``asset_group`` its group in Dagster. ``catalog`` and ``table`` are where a source is
    read or a joint is published: those of its group's target for a stored joint, None for a joint that is not stored.
    ``step`` are the options of the step that runs the group; ``row_values`` is whether Dagster may show values of its
    rows. ``schema`` is None where no column is known; ``lineage`` has no entry for a column whose origin is not
    certain. ``defaults`` are the locations in rivet.yaml that give the keys which the joint's own file does not.
    """

    name: str
    type: str
    engine: str
    upstream: tuple[str, ...]
    group: str
    asset_group: str
    code_version: str
    catalog: str | None = None
    table: str | None = None
    partitions: Partitions | None = None
    checks: tuple[CompiledCheck, ...] = ()
    step: StepOptions = StepOptions()
    row_values: bool = True
    schema: tuple[Field, ...] | None = None
    schema_confidence: str = NONE
    lineage: Sequence[ColumnLineage] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    owners: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceJoint(_Joint):
    """A table that the project reads.

    ``options`` are the options of the table's storage. ``sql`` is the projection: ``columns``, ``filter`` and
    ``limit``; ``lines`` are the lines of its expressions, by ``columns.`` with an alias and ``filter``. ``landing`` is
    None unless the table is a landing zone.
    """

    type: Literal["source"] = "source"
    catalog: str
    table: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sql: str
    columns: tuple[tuple[str, str | None], ...] = ()
    filter: str | None = None
    limit: int | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    landing: Landing | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryJoint(_Joint):
    """A SQL joint: ``sql`` is the user's query, which begins on ``sql_line`` of its file.

    For a template ``sql`` is the query of a first run and ``sql_incremental`` that of later runs, None where it is the
    same; ``lines`` and ``lines_incremental`` say from which lines of which files their lines came.
    """

    type: Literal["sql"] = "sql"
    sql: str
    sql_incremental: str | None = None
    sql_line: int | None = None
    lines: tuple[Stretch, ...] = ()
    lines_incremental: tuple[Stretch, ...] = ()

    def locate(self, line: int | None, text: str | None = None) -> FileLocation:
        """Return where a line of one of its texts, by default the first run's, stands."""
        if line is None:
            return FileLocation(self.file, self.line)
        lines = self.lines_incremental if text is not None and text == self.sql_incremental else self.lines
        at = in_file(locate_line(lines, line), self.file, self.sql_line)
        return FileLocation(self.file, self.line) if at.line is None else at


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionJoint(_Joint):
    """A Python function, named as ``module:function``, and the file that holds it; always stored."""

    type: Literal["python"] = "python"
    catalog: str
    table: str
    function: str
    function_file: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SinkJoint(_Joint):
    """The union by name of its upstream, published as a table of its own."""

    type: Literal["sink"] = "sink"
    catalog: str
    table: str


ComputedJoint = QueryJoint | FunctionJoint | SinkJoint
"""A joint whose rows a run computes."""

CompiledJoint = SourceJoint | ComputedJoint
"""A joint of the plan."""
