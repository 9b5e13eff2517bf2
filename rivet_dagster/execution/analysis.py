"""Analysis: every query of a plan judged by the engine's own analyzer, over empty relations; no data is read.

Each joint's query is analyzed over empty relations with the columns of what it reads, and then stands for its readers
as an empty relation with its own columns. So an error is told once, at the joint whose text has it. Readers of that one
are judged if the compiler knows its columns and types, and are left out otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.compiler.joints import CompiledJoint, FunctionJoint, QueryJoint, SinkJoint, SourceJoint
from rivet_dagster.compiler.lineage import may_differ, table_columns
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import EngineSession, Frame, Typed
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.reading.sources import transforms
from rivet_dagster.execution.row_error import locating_errors
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.check_plan import BoundQuery, ByQuery, CompiledCheck, InOnePass, one_pass
from rivet_dagster.model.partitions import PARTITION_END, PARTITION_KEYS, PARTITION_START
from rivet_dagster.model.relations import JdbcTable
from rivet_dagster.model.schema import ANALYZED, Field, Schema
from rivet_dagster.model.watermark import any_value, is_watermark_type
from rivet_dagster.sql.columns.type_names import parse_ddl
from rivet_dagster.sql.literal_rows import empty_relation
from rivet_dagster.sql.target import RUN_STARTED_AT, target_view, watermark_of

NOT_JUDGED = "RVT-331"

Columns = tuple[tuple[str, str], ...]


@dataclass
class _Found:
    """The facts known so far: the columns of joints, which of them are the engine's, and what is wrong.

    ``columns`` are those that readers find. ``left_out`` are joints that cannot be judged because of an error that is
    told elsewhere. ``empty`` are empty relations by engine and columns of a joint, each of which its readers share;
    ``frames`` are the joints themselves, by engine, where that runs in the database of their tables.
    ``doubtful`` are joints that read a table which may have other columns, and their readers: what the engine refuses
    in them is a warning.
    """

    columns: dict[str, Columns] = field(default_factory=dict)
    judged: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    empty: dict[tuple[str, str, Columns], Frame] = field(default_factory=dict)
    frames: dict[tuple[str, str], Frame] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)


def analyze_plan(assembly: CompiledAssembly, runtime: Runtime) -> CompiledAssembly:
    """Return the plan with the engine's types in its schemas, and with what the engine refuses as errors.

    A query that cannot be judged for want of the columns of what it reads is a warning. Raises what
    ``Engine.session`` does.
    """
    findings = _Found()
    with ExitStack() as sessions:
        opened: dict[str, EngineSession] = {}
        for joint in _in_order(assembly):
            if joint.engine not in opened:
                opened[joint.engine] = sessions.enter_context(runtime.engine(joint.engine).session())
            _Judge(assembly, runtime, joint.engine, opened[joint.engine], findings).judge(joint)
    warnings = (*assembly.warnings, *findings.warnings)
    if findings.errors:
        return CompiledAssembly(profile=assembly.profile, errors=_sorted(findings.errors), warnings=warnings)
    typed = (
        _with_types(joint, findings.columns[joint.name]) if joint.name in findings.judged else joint
        for joint in assembly.joints
    )
    return replace(assembly, joints=tuple(typed), warnings=warnings)


def _in_order(assembly: CompiledAssembly) -> Iterator[CompiledJoint]:
    """Yield the joints, each after those that it reads."""
    done: set[str] = set()
    for group in assembly.execution_order:
        for name in assembly.group(group).joints:
            if name not in done:
                done.add(name)
                yield assembly.joint(name)


def _sorted(errors: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(errors, key=lambda error: (error.file or "", error.line or 0)))


def _with_types(joint: CompiledJoint, columns: Columns) -> CompiledJoint:
    schema: Schema = tuple(Field(name, type_) for name, type_ in columns)
    return replace(joint, schema=schema, schema_confidence=ANALYZED)


class _Judge:
    """Judges the joints of one engine, in a session."""

    def __init__(
        self, assembly: CompiledAssembly, runtime: Runtime, engine: str, session: EngineSession, findings: _Found
    ) -> None:
        self._assembly = assembly
        self._runtime = runtime
        self._engine = engine
        self._session = session
        self._found = findings

    def judge(self, joint: CompiledJoint) -> None:
        """Judge the queries of a joint and of its checks, and remember its columns."""
        with self._session.views():
            declared = _of_schema(joint.schema)
            if declared is not None:
                self._found.columns[joint.name] = declared
            if any(self._is_doubtful(name) for name in joint.upstream):
                self._found.doubtful.add(joint.name)
            try:
                columns = self._columns(joint)
            except RivetError as error:
                self._refused(joint, error.diagnostics)
                self._found.left_out |= {joint.name} if declared is None else set()
                return
            if columns is None:
                return
            self._found.columns[joint.name] = self._in_table(joint, columns)
            self._found.judged.add(joint.name)
            self._judge_incremental(joint)
            self._judge_checks(joint, columns)

    def _is_doubtful(self, name: str) -> bool:
        """Return whether readers of a joint may find other columns than those that are known."""
        target = self._assembly.target(name)
        return name in self._found.doubtful or (target is not None and target.declared and may_differ(target.write))

    def _refused(self, joint: CompiledJoint, diagnostics: Iterable[Diagnostic]) -> None:
        (self._found.warnings if joint.name in self._found.doubtful else self._found.errors).extend(diagnostics)

    def _in_table(self, joint: CompiledJoint, columns: Columns) -> Columns:
        """Return the columns that readers of the joint find, if it computes ``columns``."""
        target = self._assembly.target(joint.name)
        if target is None or isinstance(joint, SinkJoint):
            return columns
        fields = table_columns(target.write, tuple(Field(name, type_) for name, type_ in columns))
        return (*columns, *((field.name, str(field.type)) for field in fields[len(columns) :]))

    def _columns(self, joint: CompiledJoint) -> Columns | None:
        if isinstance(joint, FunctionJoint):  # only a call tells its columns
            return None
        if isinstance(joint, SourceJoint):
            return self._of_source(joint)
        if not self._registered(joint, joint.upstream):
            return None
        if isinstance(joint, SinkJoint):
            frames = [self._of_joint(name) for name in joint.upstream]
            with locating_errors(joint):
                return self._session.columns(frames[0] if len(frames) == 1 else self._session.union_by_name(frames))
        return self._of_query(joint, joint.sql, {})

    def _of_source(self, joint: SourceJoint) -> Columns | None:
        declared = _of_schema(joint.schema)
        table = self._in_database(joint)
        if table is not None:
            self._found.frames[self._engine, joint.name] = table
            return declared
        if not (joint.columns or joint.filter):
            return declared
        ddl = joint.options.get("schema")
        try:
            given = parse_ddl(ddl) if isinstance(ddl, str) else None
            read = _of_schema(given or self._runtime.catalog(joint.catalog).columns(joint.table, joint.options))
        except RivetError:  # without the table its transforms cannot be judged, but its readers can
            read = None
        if read is None:
            return None
        self._session.register(joint.name, self._empty(read))
        with locating_errors(joint):
            return self._session.columns(self._session.query(joint.sql))

    def _in_database(self, joint: SourceJoint) -> Frame | None:
        """Return the table itself where its engine runs in the database: its columns are of types that Spark has not.

        None for other engines, and without the table.
        """
        if JdbcTable not in self._runtime.engine(self._engine).writes:
            return None
        try:
            relation = self._runtime.catalog(joint.catalog).relation(joint.table, joint.options)
            return self._session.load(relation, transforms(joint))
        except RivetError:  # without the table the joint itself says nothing, but its readers may have other sources
            return None

    def _of_query(self, joint: QueryJoint, text: str, parameters: Mapping[str, Any]) -> Columns:
        given = {**_of_partitions(joint), RUN_STARTED_AT: Typed(datetime.now(UTC), "timestamp"), **parameters}
        used = {name: value for name, value in given.items() if f":{name}" in text or f"${name}" in text}
        used |= self._runtime.values_of(self._variables(joint, text))
        try:
            dialect = self._dialect(joint)
            frame = self._session.query(text, used) if dialect is None else self._session.query_in(dialect, text, used)
            if any((self._engine, name) in self._found.frames for name in joint.upstream):
                self._found.frames[self._engine, joint.name] = frame
            return self._session.columns(frame)
        except RivetError as error:
            raise _at_text(error, joint, text) from error.__cause__

    def _dialect(self, joint: QueryJoint) -> str | None:
        """Return the SQL of the joint, None for Spark's."""
        query = self._assembly.group(joint.group).query
        return next((cte.dialect for cte in query.ctes if cte.joint == joint.name), None) if query is not None else None

    def _variables(self, joint: QueryJoint, text: str) -> tuple[str, ...]:
        """Return the parameters of one of the joint's texts."""
        query = self._assembly.group(joint.group).query
        (cte,) = (cte for cte in query.ctes if cte.joint == joint.name) if query is not None else (None,)
        return () if cte is None else cte.parameters_for(text != cte.text)

    def _judge_incremental(self, joint: CompiledJoint) -> None:
        """Judge the text of later runs, for which its sink's rows are there, and their watermark."""
        if not isinstance(joint, QueryJoint) or joint.sql_incremental is None:
            return
        group = self._assembly.group(joint.group).query
        variant = next((cte.incremental for cte in group.ctes if cte.joint == joint.name), None) if group else None
        if variant is None:
            return
        target, rows = self._assembly.target(variant.sink), self._found.columns[joint.name]
        types = {name.lower(): type_ for name, type_ in rows}
        column = target.watermark.column if target is not None and target.watermark is not None else ""
        type_ = types.get(column.lower(), "")
        if variant.watermark and not is_watermark_type(type_):
            return
        watermark = {watermark_of(variant.sink): Typed(any_value(type_), type_)} if variant.watermark else {}
        if variant.this:
            self._session.register(target_view(variant.sink), self._empty(rows))
        try:
            self._of_query(joint, joint.sql_incremental, watermark)
        except RivetError as error:
            self._refused(joint, error.diagnostics)

    def _judge_checks(self, joint: CompiledJoint, columns: Columns) -> None:
        if not joint.checks:
            return
        self._session.register(joint.name, self._of_joint(joint.name))
        together = [check.queries.counting for check in joint.checks if isinstance(check.queries.counting, InOnePass)]
        shared = one_pass(f"`{joint.name}`", together) if together else None
        if shared is not None and self._is_right(shared):
            together = []
        for check in joint.checks:
            counting = check.queries.counting
            query = counting.query if isinstance(counting, ByQuery) else None
            if isinstance(counting, InOnePass) and together:
                query = one_pass(f"`{joint.name}`", [counting])
            if query is not None and self._registered(joint, check.reads):
                self._judge_check(joint, check, query)

    def _is_right(self, query: BoundQuery) -> bool:
        try:
            self._session.query(query.sql, query.parameters)
        except RivetError:
            return False
        return True

    def _judge_check(self, joint: CompiledJoint, check: CompiledCheck, query: BoundQuery) -> None:
        try:
            self._session.query(query.sql, query.parameters)
        except RivetError as error:
            first = error.diagnostics[0]
            message = f"the check '{check.name}': {first.message}"
            diagnostic = Diagnostic(first.code, message, joint.name, check.file or joint.file, check.line or joint.line)
            self._refused(joint, [diagnostic])

    def _registered(self, joint: CompiledJoint, names: Iterable[str]) -> bool:
        """Register the joints that are read, and return whether the columns of all of them are known."""
        known = {*self._found.columns, *(name for engine, name in self._found.frames if engine == self._engine)}
        unknown = [name for name in names if name not in known]
        if set(unknown) & self._found.left_out:
            self._found.left_out.add(joint.name)
            return False
        if unknown:
            message = f"it was not judged, since the columns of {', '.join(unknown)} are not known"
            self._found.warnings.append(Diagnostic(NOT_JUDGED, message, joint.name, joint.file, joint.line))
            return False
        for name in names:
            self._session.register(name, self._of_joint(name))
        return True

    def _of_joint(self, name: str) -> Frame:
        """Return an empty relation with the columns of a joint, or its own query where that runs in a database."""
        if (self._engine, name) in self._found.frames:
            return self._found.frames[self._engine, name]
        key = self._engine, name, self._found.columns[name]
        if key not in self._found.empty:
            self._found.empty[key] = self._empty(key[2])
        return self._found.empty[key]

    def _empty(self, columns: Columns) -> Frame:
        """Return an empty relation with these columns."""
        return self._session.query(empty_relation(columns))


def _at_text(error: RivetError, joint: QueryJoint, text: str) -> RivetError:
    """Return an error at the line of the joint's file that the engine's line of its text is."""
    first = error.diagnostics[0]
    at = joint.locate(first.line, text)
    return RivetError(first.code, f"{first.message}{at.note}", joint=joint.name, file=at.file, line=at.line)


def _of_schema(schema: Schema | None) -> Columns | None:
    if schema is None or any(column.type is None for column in schema):
        return None
    return tuple((column.name, str(column.type)) for column in schema)


def _of_partitions(joint: CompiledJoint) -> dict[str, Any]:
    if joint.partitions is None:
        return {}
    now = datetime.now(UTC)
    return {PARTITION_KEYS: ["key"], PARTITION_START: now, PARTITION_END: now}
