"""All errors that a user can meet: the registry of codes, the diagnostic and the exception.

The hundreds digit of a code is its area: 1 configuration, 2 a declaration, 3 the assembly of joints, 4 storage,
5 engines and runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Self, cast

from rivet_dagster.secrets.redaction import redacted

REMEDIATIONS: dict[str, str] = {
    # 1xx: configuration; the command line exits with 10
    "RVT-101": "Name the project's directory with --project, or create one with a rivet.yaml in it.",
    "RVT-102": "Correct the YAML.",
    "RVT-103": "Remove the key or correct its name.",
    "RVT-104": "Correct the value.",
    "RVT-105": "Add the key.",
    "RVT-106": "Name a profile of profiles.yaml with --profile or RIVET_PROFILE.",
    "RVT-107": "Set the environment variable before starting.",
    "RVT-108": "Create the file or folder, or correct the path in rivet.yaml.",
    "RVT-109": "Install the plugin that provides this type, or correct the type.",
    "RVT-110": "See `rivet-dagster --help` for the commands and their options.",
    "RVT-111": "Install a JDK 17 or 21 and set JAVA_HOME, or: pip install 'rivet_dagster[java]'.",
    "RVT-112": "Point JAVA_HOME to a JDK 17 or 21, or: pip install 'rivet_dagster[java]'.",
    "RVT-113": "Name a file that `compile --format json` wrote.",
    "RVT-114": "Name one partition with `--partition KEY`, several in a row with `--partition-range FIRST...LAST`.",
    "RVT-115": 'Write it as Dagster does: key:"a/b", group:marts, tag:fresh, kind:sink, +key:"a/b"; and, or, not.',
    "RVT-116": "Make one for each partitions definition.",
    "RVT-117": "Name sources of this project.",
    "RVT-118": "Leave `partition_offset` out; it counts back from the last whole partition of time.",
    "RVT-119": "Select joints without partitions, or wait for joints of the same partitions with after_success; "
    "a schedule or a condition makes partitions, too.",
    "RVT-120": "Leave out of `target` what `monitored` selects.",
    "RVT-121": "Write it as `def name(context: dg.AssetExecutionContext, group: RivetGroupRun)`, resources behind; "
    "and in it `yield from group.run(context)`.",
    "RVT-122": "Write joints, path:FOLDER, tag:TAG, group:GROUP, kind:KIND; +x is what x reads, too, x+ what reads it; "
    "a space means one or the other, a comma both.",
    "RVT-123": "Install it in a version that rivet_dagster takes: pip install -U rivet_dagster, or its extra ui, java, "
    "connect, databricks, iceberg or pandas.",
    "RVT-124": "Let `dagster instance info` say what is wrong with it; docs/dagster.yaml is one that works.",
    "RVT-125": "Write ${NAME} in its place, and set that variable for the process that runs.",
    "RVT-126": "Set it in the engine's `config`, `packages` or `jars`, which win, or give each catalog an engine of "
    "its own.",
    "RVT-127": "Name the runtime that fits the installed Spark, or none: without one the engine takes it by itself.",
    "RVT-128": "Install the pyspark of that version, or use a Spark of the version that pyspark has.",
    "RVT-129": "Names of environments match ^[a-z0-9][a-z0-9_-]*$ and have at most 64 characters.",
    "RVT-130": "Name an empty directory, or one that does not exist.",
    "RVT-141": "Name the directory of a dbt project, the one with its dbt_project.yml.",
    "RVT-142": "Correct dbt_project.yml; `dbt parse` says what dbt itself thinks of it.",
    "RVT-144": "Name a directory outside of the dbt project with --to; it is only read.",
    "RVT-145": "Name an output of the dbt project's profile, which is in the profiles.yml of its directory.",
    "RVT-146": "Name a target whose tables Spark reads by their metastore: of `type: spark` and `method: session`, "
    "with `spark.hadoop.hive.metastore.uris` or an Iceberg catalog in `server_side_parameters`.",
    # 2xx: one declaration
    "RVT-201": "Names match ^[a-z][a-z0-9_]*$, have at most 128 characters and are none that Dagster keeps for itself; "
    "without `name` it is the file's.",
    "RVT-202": "Correct the YAML.",
    "RVT-203": "Remove the key or correct its name.",
    "RVT-204": "Correct the value.",
    "RVT-205": "Add the key.",
    "RVT-206": "Remove the key: it has no meaning on this type of joint.",
    "RVT-207": "Correct the SQL; a joint is exactly one query.",
    "RVT-208": "Write annotations as `-- rivet:key: value` (Python: `# rivet:key: value`) before anything else.",
    "RVT-209": "Write a check as `-- rivet:assert: not_null(id)`, or in YAML as `{type: not_null, columns: [id]}`.",
    "RVT-210": "Correct the Python file; it must define the joint's function at its top level.",
    "RVT-211": "Save the file as UTF-8 text.",
    "RVT-212": "Correct the template; braces between {% raw %} and {% endraw %} stay as they are.",
    "RVT-213": "Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.",
    "RVT-214": "Name another test of this project, as `name` says it, or the file without `.test.yaml`.",
    "RVT-215": "Give `inputs` for each joint that is read: with `scope: joint` the direct upstream of the target, with "
    "`scope: graph` any joints before it.",
    "RVT-216": "Name a check of the target.",
    "RVT-217": "Name each column of the target in `expected`, or leave it out with `options: {ignore_columns: [...]}`.",
    # 3xx: the assembly of joints
    "RVT-301": "Rename one of them.",
    "RVT-302": "Correct the name, or declare the missing joint.",
    "RVT-303": "Remove `upstream`, or make it a joint of type sql.",
    "RVT-304": "Add `upstream` with the joint whose rows the sink writes.",
    "RVT-305": "Break the cycle: one of these joints must not read the next.",
    "RVT-306": "Name a joint of this project.",
    "RVT-307": "Read the joint before the sink instead; a sink is the end of its line.",
    "RVT-308": "Name an engine of the profile, or set `default_engine`.",
    "RVT-309": "Name a catalog of the profile, and list it under the engine's `catalogs`.",
    "RVT-310": "Give each joint its own table; to read a published table, read its joint, or the one before a sink.",
    "RVT-311": "Make the function's parameters the names of its upstream joints.",
    "RVT-312": "Use a strategy that the catalog can do, or another catalog.",
    "RVT-313": "Add the joint to `upstream`, or leave `upstream` out.",
    "RVT-314": "Put the limit in a SQL joint that the others read.",
    "RVT-315": "Correct the SQL; where Spark reads it as it stands, declare `upstream`.",
    "RVT-316": "Give each output column a name of its own, with AS.",
    "RVT-317": "Give the joints that one sink writes the same columns, of the same types.",
    "RVT-318": "Correct the source's `table` or its catalog, or give its `schema`; the plan holds without it.",
    "RVT-319": "Name a source with `options: {landing: true}`; every other joint is read as ref('joint').",
    "RVT-320": "Say which table it is about, and ask only under {% if is_incremental() %} for what a first run lacks.",
    "RVT-321": "Correct the source's `options`: `landing` and `archive` are for a source on a directory or a glob that "
    "the catalog can list.",
    "RVT-322": "Name a column of the joint's own rows: a DATE, TIMESTAMP, TIMESTAMP_NTZ or a STRING like 2024-01-31; "
    "for hours one of the timestamps; for static partitions a STRING, a whole number, BOOLEAN or DATE.",
    "RVT-323": "Give the joint `partitions`, or leave the parameter out.",
    "RVT-324": "Give the query that column, or correct the options of `write_strategy`.",
    "RVT-325": "Leave `partitions` out, or use merge or snapshot.",
    "RVT-326": "Remove the option: a source is read by the steps of other joints, which have options of their own.",
    "RVT-327": "Correct the name; the `schema` of a source names all its columns, those of folders like `day=1`, too.",
    "RVT-328": "Run the joint on an engine that reads and writes that catalog's tables, or choose another catalog.",
    "RVT-329": "Write it with what docs/sql-on-other-engines.md lists, or run the joint on an engine of Spark.",
    "RVT-330": "Write it so that nothing in it can fail (try_cast, try_divide, nullif), or in a joint of its own with "
    "`on_error: fail`.",
    "RVT-331": "Give its sources a `schema`, or make their catalogs reachable; the columns of a Python joint are known "
    "in a run alone.",
    # 4xx: storage
    "RVT-401": "Materialize the joint first.",
    "RVT-402": "Give its catalog a `path` on a POSIX file system that engine and Dagster both see, or a catalog "
    "of the type `iceberg`, which publishes to object stores, too.",
    "RVT-403": "Create the file or correct `table` and the catalog's path.",
    "RVT-404": "Move the existing files away, or choose another table name.",
    "RVT-405": "Run it again; another run published the same table in between.",
    "RVT-406": "Run it again: this run sent no heartbeat for so long that other runs considered it dead.",
    "RVT-407": "Run it again; if that does not help, look at the disk, and at who else writes to its `.rivet`.",
    "RVT-408": "Name one that `rivet-dagster versions list JOINT` shows.",
    "RVT-409": "Give a value of the column's type; `rivet-dagster watermark list` shows columns and types.",
    "RVT-410": "Give this user the right to move files there, then run it again: nothing is read or published twice.",
    "RVT-411": "Run these partitions of the asset again, so that all of them have columns of types that fit together.",
    "RVT-412": "Give it another IO manager; this one keeps what assets return.",
    "RVT-413": "Use a catalog of another type for it.",
    "RVT-414": "Correct the catalog's `upkeep`, or what the engine's message names; the rows are as they were, and the "
    "next upkeep does what this one has not.",
    "RVT-415": "Name one that `rivet-dagster environment list` shows, or make it with `environment create`.",
    "RVT-416": "Take another name: an environment belongs to one profile.",
    "RVT-417": "Wait for what is running in the environment, then try it again.",
    "RVT-418": "Run the joint again, with all that its run was to publish: without the heartbeat of its run, a sweep "
    "removes what the run has staged.",
    "RVT-419": "See that the catalog's server answers, then retry: a retry of the run finds what it has published. "
    "Nothing was removed; a sweep removes what is not needed, after a day at the latest.",
    "RVT-420": "Run it with `--full-refresh`. Or, if that snapshot came after the last publication, and no rollback "
    "lies between, set the table's property `rivet.continues` to its id, and run it again.",
    "RVT-421": "Run the tables first that have not published these rows.",
    "RVT-422": "Have the database cast the column to a type that Spark has, by `casts` of the source's `options`.",
    # 5xx: engines and runs
    "RVT-501": "Give `concurrency_limit` a whole number of at least 1, or leave it out.",
    "RVT-502": "Read the engine's own message above; correct its `config`.",
    "RVT-503": "Correct the SQL; the engine's message names the place.",
    "RVT-504": "Correct the function; its own message stands above.",
    "RVT-505": "Return a MaterializedRef, pyarrow Table or RecordBatchReader, pandas, polars or Spark frame.",
    "RVT-506": "Run the groups of different engines in processes of their own.",
    "RVT-507": "Look at the samples of the failed checks; correct the data or the check.",
    "RVT-508": "Find out why the query gives no rows, or set `on_empty` to write or skip.",
    "RVT-509": "Annotate the input as MaterializedRef, pyarrow.Table, or a pandas, polars or Spark DataFrame.",
    "RVT-510": "Run it again; `options: {retries: 3, retry_delay: 30s}` on the joint does so by itself.",
    "RVT-511": "Correct `watermark_column` or `lookback` of the joint's `write_strategy`.",
    "RVT-512": "Have the query give rows of the run's partitions alone, or run the partitions that it gives rows of.",
    "RVT-513": "Give the batch these columns, or correct the options of `write_strategy`.",
    "RVT-514": "Have the query give the table's columns and types, or set `on_schema_change` to add or ignore.",
    "RVT-515": "Have the query give one row a key, or name in `order_by` the columns that decide which row is used.",
    "RVT-516": "Have the query leave out such rows, or give them a value.",
    "RVT-517": "Have each partition be a run of its own: `backfill_policy=BackfillPolicy.multi_run()`, or none.",
    "RVT-518": "Give it more time with `timeout`, or look at `rivet/spark_plan` for what takes so long; "
    "`retries` try it again.",
    "RVT-519": "Run the joint on another engine, or choose another catalog.",
    "RVT-520": "Correct the data or the expressions, or publish the other rows with `on_error: quarantine`.",
    "RVT-521": "Its log in `.rivet/spark`, or `.rivet/sail`, may say more; memory of Spark is `spark.driver.memory` in "
    "the engine's `config`. The next run starts a new server.",
    "RVT-522": "Wait until nobody uses it, or end it with `rivet-dagster spark stop`; a second server is an engine of "
    "another name.",
    "RVT-523": "Start a new run here instead, or re-execute it in the code location of that environment.",
    "RVT-524": "Materialize the joint together with its check `published`: do not leave out the checks of a run, and "
    "re-execute a step together with the step that publishes.",
    "RVT-525": "Refresh what the message names in the same run; or bring the files back that it names.",
    "RVT-526": "Spark starts without an archive as before, only slower; `class_archive: false` in the engine turns "
    "archives off.",
    "RVT-527": "Correct the rows, by a check that finds such ones first, or the table's types and constraints.",
    "RVT-528": "Have the setting that the message names raised.",
    "RVT-599": "This is a defect of rivet_dagster: please report it with the full text (--verbose shows all of it).",
}
"""The remediation of each code, shown where the code that raises the error gives no more specific one."""


TRANSIENT = frozenset({"RVT-406", "RVT-419", "RVT-510", "RVT-518", "RVT-521"})
"""Codes of errors that may not recur when the same step is tried again."""


@dataclass(frozen=True)
class Diagnostic:
    """One error or warning: what is wrong, where, and what to do.

    ``file`` is relative to the project if it lies inside it; ``line`` counts from 1. The texts are redacted.
    """

    code: str
    message: str
    joint: str | None = None
    file: str | None = None
    line: int | None = None
    remediation: str | None = None

    def __post_init__(self) -> None:
        remediation = REMEDIATIONS[self.code] if self.remediation is None else self.remediation
        object.__setattr__(self, "message", redacted(self.message))
        object.__setattr__(self, "remediation", redacted(remediation))

    def __str__(self) -> str:
        location = self.file or ""
        if self.file and self.line:
            location += f":{self.line}"
        subject = f"joint {self.joint}: " if self.joint else ""
        text = f"{self.code} {location + ': ' if location else ''}{subject}{self.message}"
        return f"{text}\n    {self.remediation}" if self.remediation else text

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as the command line prints them in JSON."""
        fields = asdict(self)
        return {key: fields[key] for key in ("code", "message", "joint", "file", "line", "remediation")}


class RivetError(Exception):
    """One or more diagnostics, raised together.

    Errors after which code decides what to do next have types of their own. As with OSError and its numbers, the type
    follows from the code, that of the first diagnostic.

    >>> print(RivetError("RVT-106", "no profile 'prod'", remediation="Use one of: default."))
    RVT-106 no profile 'prod'
        Use one of: default.
    """

    diagnostics: tuple[Diagnostic, ...]

    def __new__(cls, code: str, *_: Any, **__: Any) -> Self:
        """Return an error of the type that the code has."""
        return cast("Self", super().__new__(_type_of(code) if cls is RivetError else cls))

    def __init__(
        self,
        code: str,
        message: str,
        *,
        joint: str | None = None,
        file: str | None = None,
        line: int | None = None,
        remediation: str | None = None,
    ) -> None:
        self.diagnostics = (Diagnostic(code, message, joint, file, line, remediation),)
        super().__init__(str(self.diagnostics[0]))

    @classmethod
    def of(cls, diagnostics: Iterable[Diagnostic]) -> RivetError:
        """Return one exception whose message holds all of ``diagnostics`` (at least one)."""
        known = tuple(diagnostics)
        error = cls.__new__(cls, known[0].code)
        error.diagnostics = known
        Exception.__init__(error, "\n".join(str(d) for d in error.diagnostics))
        return error

    @property
    def code(self) -> str:
        """The code of the first diagnostic."""
        return self.diagnostics[0].code

    @property
    def is_transient(self) -> bool:
        """Whether a retry may succeed: all diagnostics are transient."""
        return all(d.code in TRANSIENT for d in self.diagnostics)

    @property
    def is_configuration(self) -> bool:
        """Whether the first diagnostic is about the manifest, the profile or the machine."""
        return is_configuration(self.code)

    @property
    def exit_code(self) -> int:
        """10 if all diagnostics are about configuration (RVT-1xx), else 1."""
        return 10 if all(is_configuration(d.code) for d in self.diagnostics) else 1

    def __reduce__(self) -> tuple[Any, ...]:
        return RivetError.of, (self.diagnostics,)


class NotMaterialized(RivetError):
    """RVT-401: a table has no version, or the version that is asked for has expired."""


class NotFound(RivetError):
    """RVT-403: what is to be read does not exist, or cannot be reached."""


class NotWritable(RivetError):
    """RVT-404: storage refuses a write, or something else has the name of the table."""


class Conflict(RivetError):
    """RVT-405: somebody else has published a table in between."""


class HeartbeatLost(RivetError):
    """RVT-406: the run was taken for dead, since it sent no heartbeat."""


class EnvironmentMissing(RivetError):
    """RVT-415: there is no such environment, or it is over."""


class EnvironmentInUse(RivetError):
    """RVT-417: something else must end in the environment first."""


class StagedRowsGone(RivetError):
    """RVT-418: what a run has staged was swept before it was published."""


class OutcomeUnknown(RivetError):
    """RVT-419: it is not known whether a publication has been carried out, or will be."""


class PositionUnknown(RivetError):
    """RVT-420: it is not known any more how far an input was read."""


class BatchRefused(RivetError):
    """RVT-422, RVT-513, RVT-514: a table does not take the columns of a batch."""


class EngineUnusable(RivetError):
    """RVT-502, RVT-506: an engine cannot start, or cannot be used in this process."""


class QueryRefused(RivetError):
    """RVT-503: an engine refuses a query."""


class RowsFailed(RivetError):
    """RVT-520: an expression cannot be evaluated for a row."""


_TYPES: dict[str, type[RivetError]] = {
    "RVT-401": NotMaterialized,
    "RVT-403": NotFound,
    "RVT-404": NotWritable,
    "RVT-405": Conflict,
    "RVT-406": HeartbeatLost,
    "RVT-415": EnvironmentMissing,
    "RVT-417": EnvironmentInUse,
    "RVT-418": StagedRowsGone,
    "RVT-419": OutcomeUnknown,
    "RVT-420": PositionUnknown,
    "RVT-422": BatchRefused,
    "RVT-502": EngineUnusable,
    "RVT-503": QueryRefused,
    "RVT-506": EngineUnusable,
    "RVT-513": BatchRefused,
    "RVT-514": BatchRefused,
    "RVT-520": RowsFailed,
}


def _type_of(code: str) -> type[RivetError]:
    return _TYPES.get(code, RivetError)


def is_configuration(code: str) -> bool:
    """Return whether ``code`` is about the manifest, the profile or the machine, not about a joint or a run."""
    return code.startswith("RVT-1") or code == "RVT-501"


def nearest(name: str, known: Iterable[str], *, listed: bool = True, cutoff: float = 0.6) -> str:
    """Return the end of a message about an unknown name: the most similar known names, or a list of the known ones.

    ``cutoff`` is the least similarity, where 1 means equal. Without a similar name the known names are listed if
    ``listed``; the hint is empty where there is nothing to show.

    >>> nearest("upstrem", ["upstream", "owners"])
    "; did you mean 'upstream'?"
    """
    known = sorted(known)
    close = get_close_matches(name, known, n=3, cutoff=cutoff)
    if close:
        return "; did you mean " + " or ".join(repr(c) for c in close) + "?"
    return f"; known: {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}" if known and listed else ""
