"""The errors of rows that a run could not evaluate: written beside the good rows, or the reason why the run fails."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.targets import ErrorTransaction, HasErrorTables, HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.rewriting.error_retention import loaded_errors, retained_errors
from rivet_dagster.compiler.group_query import GroupQuery
from rivet_dagster.compiler.joints import QueryJoint, SourceJoint
from rivet_dagster.engines.contract import EngineSession, Frame, Typed
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.quality.row_errors import counted_errors
from rivet_dagster.execution.reading.inputs import query_frame
from rivet_dagster.execution.reading.rendering import RunQueries
from rivet_dagster.execution.results import RowErrorCounts
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.model.external_assets import DAGSTER
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.row_errors import QUERY_COLUMNS, Proof
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import Append, AppendNewer, Refresh, ReplaceAll, Upsert
from rivet_dagster.sql.target import source_of

_NEW = "rivet_new_errors"

_ERRORS = "rivet_earlier_errors"

_RECORDS = "rivet_corrupt_records"

MALFORMED_RECORD = "MALFORMED_RECORD"
"""The code of a record that does not fit the columns of its source."""

_LONGEST = {"message": 1_000, "row": 65_536}
"""The most characters of a message, and of the JSON of a row, that an error has; of a longer one `...` follows them."""


def _bounded(column: str) -> str:
    most = _LONGEST.get(column)
    if most is None:
        return f"`{column}`"
    return f"IF(char_length(`{column}`) > {most}, concat(left(`{column}`, {most}), '...'), `{column}`) AS `{column}`"


# Spark writes a timestamp into the code that it generates, which would be compiled and optimized anew in each run. It
# does not write arrays there, and takes no element out of one beforehand at a position that is not deterministic.
_FOUND_AT = "array(:found_at, :found_at)[IF(spark_partition_id() < 0, 1, 0)] AS found_at"

_OF_RUN = (
    f"SELECT {', '.join(map(_bounded, QUERY_COLUMNS))}, :run_id AS run_id, :version AS version, {_FOUND_AT} FROM {_NEW}"
)

_OF_RECORDS = f"""
SELECT
  :joint AS joint, '{MALFORMED_RECORD}' AS code, :table AS expression, CAST(:file AS STRING) AS file,
  CAST(:line AS INT) AS line, 'The record could not be parsed as a row with the columns of the source.' AS message,
  to_json(named_struct('record', record)) AS `row`, CAST(NULL AS STRING) AS `key`
FROM {_RECORDS}
""".strip()

_NOT_CERTAIN = "it is not certain that all rows can be evaluated"


def write_errors(
    run: ThisRun,
    rendered: RunQueries,
    corrupt: Mapping[str, Frame],
    transaction: TableTransaction,
    target: Target,
    window: Window | None,
) -> RowErrorCounts:
    """Write this run's errors to the error table of the version, and those of its base that still hold.

    ``corrupt`` holds the corrupt records of sources, by source; each of them is an error, too.

    To be called after the good rows have been written, with the views from which they were computed. ``window`` holds
    the run's partitions in the target.
    """
    assert target.errors is not None and isinstance(transaction, ErrorTransaction)
    table, session, version = target.errors.table, run.session, transaction.version
    catalog = capable(run.runtime.target_catalog(target.catalog), HasErrorTables)
    published = catalog.current(target.table)
    replaces = window is None and isinstance(target.write, ReplaceAll | Refresh)
    base = catalog.errors_of(published) if published is not None and not replaces else None
    outdated = _outdated(run, rendered, target)
    all_stay = base is not None and isinstance(target.write, Append | AppendNewer)
    if all_stay and base is not None:
        all_stay = not outdated.among(session, loaded_errors(session, base))
    shared = transaction.share_errors(table) if all_stay else None
    stored = transaction.write_errors(table, None) if shared is None else shared
    parts = [errors_of_records(session, records, _source(run, name)) for name, records in corrupt.items()]
    if rendered.errors is not None:
        parts.append(query_frame(run.runtime, rendered, rendered.errors, session, run.window))
    if parts:
        errors = parts[0] if len(parts) == 1 else session.union_by_name(parts)
        stored = transaction.write_errors(table, complete_errors(run, errors, version))
    if shared is None:
        new = session.load(stored.relation)
        held = retained_errors(target.write, session, base, new, transaction.batch.relation, window)
        if held is not None:
            stored = transaction.write_errors(table, outdated.left_out(session, held))
    if stored.statistics.rows == 0:
        return RowErrorCounts(table, 0, 0)
    return counted_errors(session, session.load(stored.relation), table, version, stored.statistics.rows)


def complete_errors(run: ThisRun, errors: Frame, version: str) -> Frame:
    """Return ``errors``, which have QUERY_COLUMNS, with ERROR_COLUMNS."""
    session, run_id = run.session, run.identity.partition("/")[0]
    with session.views():
        session.register(_NEW, errors)
        values = {"run_id": run_id, "version": version, "found_at": Typed(run.started, "timestamp")}
        return session.query(_OF_RUN, values)


def errors_of_records(session: EngineSession, records: Frame, source: SourceJoint) -> Frame:
    """Return an error with QUERY_COLUMNS for each of the corrupt records of a source."""
    values = {"joint": source.name, "table": source.table, "file": source.file, "line": source.line}
    with session.views():
        session.register(_RECORDS, records)
        return session.query(_OF_RECORDS, values)


def _source(run: ThisRun, name: str) -> SourceJoint:
    source = run.runtime.assembly.joint(name)
    assert isinstance(source, SourceJoint)
    return source


def _outdated(run: ThisRun, rendered: RunQueries, target: Target) -> OutdatedErrors:
    """Return the earlier errors that are too old, or for whose sources this run has read all records.

    None of the latter if each run appends the rows of the whole sources; its errors are appended then, too.
    """
    assert target.errors is not None
    before = target.errors.oldest(run.started)
    if isinstance(target.write, Append) and not rendered.incremental:
        return outdated_errors(before=before)
    names = {source_of(name) or name for query in rendered.queries for name in query.inputs}
    joints = [run.runtime.assembly.joint(name) for name in sorted(names)]
    read = [joint for joint in joints if isinstance(joint, SourceJoint) and joint.landing is None]
    whole = [source.name for source in read if _is_read_whole(source, run.window)]
    return outdated_errors(whole, [source.name for source in read], before)


def _is_read_whole(source: SourceJoint, window: Window | None) -> bool:
    """Return whether a run with this window evaluates the expressions of a source for all of its rows."""
    return window is None or (source.partitions is None and source.catalog != DAGSTER)


def outdated_errors(
    sources: Sequence[str] = (), records_of: Sequence[str] = (), before: datetime | None = None
) -> OutdatedErrors:
    """Return all errors of ``sources``, the corrupt records of ``records_of``, and errors found ``before`` a time.

    An error whose time is not known was not found before it.
    """
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    for of, names in ("", sources), (f"code = '{MALFORMED_RECORD}' AND ", records_of):
        parameters_of_sources = {f"source_{number}": name for number, name in enumerate(names, len(parameters))}
        conditions += (
            [f"{of}joint IN ({', '.join(f':{name}' for name in parameters_of_sources)})"]
            if parameters_of_sources
            else []
        )
        parameters |= parameters_of_sources
    if before is not None:
        conditions.append("found_at IS NOT NULL AND found_at < :found_before")
        parameters["found_before"] = Typed(before, "timestamp")
    return OutdatedErrors(tuple(conditions), parameters)


@dataclass(frozen=True)
class OutdatedErrors:
    """The errors for which one of ``conditions``, none of which is ever NULL, is true."""

    conditions: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def among(self, session: EngineSession, errors: Frame) -> bool:
        """Return whether there are any among ``errors``, which have ERROR_COLUMNS."""
        if not self.conditions:
            return False
        with session.views():
            session.register(_ERRORS, errors)
            query = f"SELECT 1 AS one FROM {_ERRORS} WHERE {self._any} LIMIT 1"
            return bool(session.rows(query, self.parameters))

    def left_out(self, session: EngineSession, errors: Frame) -> Frame:
        """Return ``errors`` without them."""
        if not self.conditions:
            return errors
        with session.views():
            session.register(_ERRORS, errors)
            return session.query(f"SELECT * FROM {_ERRORS} WHERE NOT ({self._any})", self.parameters)

    @property
    def _any(self) -> str:
        return " OR ".join(self.conditions)


def may_prove(run: ThisRun, catalog: HasTargets, target: Target) -> bool:
    """Return whether to compute the rows by the author's own query, whose success may prove that there are no errors.

    Not so where the published version has errors: then this one most likely has some, too.
    """
    query = run.group.query
    replaced = isinstance(target.write, ReplaceAll | Upsert | Refresh) and target.partitions is None
    if target.errors is None or query is None or not replaced or _proof(query, query.incremental_joints) == "never":
        return False
    published = catalog.current(target.table)
    if published is not None and published.unknown_before is not None:
        return False
    if published is None:
        return True
    catalog = capable(catalog, HasErrorTables)
    has_errors = catalog.has_errors(published)
    if has_errors is not None:
        return not has_errors
    errors = catalog.errors_of(published)
    if errors is None:
        return True
    with run.session.views():
        run.session.register(_NEW, run.session.load(errors))
        return not run.session.rows(f"SELECT 1 AS one FROM {_NEW} LIMIT 1")


def _proof(query: GroupQuery, incremental: Collection[str]) -> Proof:
    """Return the weaker proof of a first run, and of an incremental one."""
    proofs = {query.proof(), query.proof(incremental)}
    return "never" if "never" in proofs else "with rows" if "with rows" in proofs else "always"


def refuse_unproven(rendered: RunQueries, transaction: TableTransaction) -> None:
    """Raise RVT-520 if a success of the author's own query does not prove that all rows can be evaluated."""
    proof = rendered.group_query.proof(rendered.incremental)
    if proof == "never" or (proof == "with rows" and transaction.batch.statistics.rows == 0):
        raise RivetError("RVT-520", _NOT_CERTAIN)


def refuse_by_types(run: ThisRun, rendered: RunQueries, as_written: bool) -> None:
    """Raise RVT-330 for casts of strings whose errors could not be separated, now that the types are known.

    Where they are separated, raise RVT-520 if a success of the author's query, ``as_written``, would prove nothing. To
    be called with the views from which the rows are computed, before any row is.
    """
    session, assembly = run.session, run.runtime.assembly
    query = rendered.group_query
    for name, compared, *queries in query.compared_types(rendered.incremental):
        if compared.is_separated and not as_written:
            continue
        frames = [query_frame(run.runtime, rendered, one, session, run.window) for one in queries]
        left, right = ({column.lower(): kind for column, kind in session.columns(frame)} for frame in frames)
        for column in left.keys() & right.keys():
            kinds = left[column].lower(), right[column].lower()
            strings = [kind.startswith("string") for kind in kinds]
            if any(strings) and not all(strings) and not {"binary", "void"} & set(kinds):
                if compared.is_separated:
                    raise RivetError("RVT-520", _NOT_CERTAIN)
                joint = assembly.joint(name)
                assert isinstance(joint, QueryJoint)
                texts = {cte.joint: cte.text_for(cte.joint in rendered.incremental) for cte in query.ctes}
                at = joint.locate(compared.line, texts[name])
                message = (
                    f"{compared.construct} ({left[column]} = {right[column]}): rows that fail here cannot be separated "
                    f"from the others, which `on_error: quarantine` needs{at.note}"
                )
                raise RivetError("RVT-330", message, joint=name, file=at.file, line=at.line)
