"""How what a run costs grows with what it does not change: files, versions and tables of a catalog, files that landed.

Each operation is done at several sizes of a history that is made without Spark, and its cost is counted: calls of the
operating system and requests by this process, bytes that this process and Spark's read and wrote, and seconds. The
exponent of each is that between the two largest sizes: 1 is a cost in proportion to what the run does not change, 0 one
that does not depend on it. The second of two runs counts; of writes to tables of many files, whose versions must expire
first, the fourth. The figures are printed as Markdown. Nothing here asserts one. The bytes are those of /proc and need
Linux.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from shutil import copyfile
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
from measuring import markdown
from one_session import ENGINE, load, open_runtime, start_spark
from orders import run

from rivet_dagster import Joint
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.definitions.load import load_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.sensors.sources import build_files_sensor
from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator
from rivet_dagster.execution.clean_up import sweep
from rivet_dagster.execution.results import StagedResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing.publish_run import publish_run
from rivet_dagster.model.write_plan import ReplaceAll

HERE = Path(__file__).resolve().parent
RESULTS, LAKE = "results", "lake"
HADOOP = {"catalog": "hadoop", "warehouse": "lake", "default-namespace": "shop"}
MODES: Mapping[str, Mapping[str, Any]] = {
    "append": {"mode": "append"},
    "merge": {"mode": "merge", "key_columns": ["id"]},
    "delete_insert": {"mode": "delete_insert", "key_columns": ["part"]},
    "gated_append": {"mode": "append"},
}
GATES = {"gated_append": [{"type": "not_null", "columns": ["id", "part"]}, {"type": "row_count", "min": 1}]}
"""The checks of the modes that have some: such as the files' own statistics answer."""

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""The configuration of a run that does not print Dagster's events, of which each partition has some."""

BATCH = 10
"""Rows of the batch of each run, and of each file of a history."""


@dataclass(frozen=True)
class Cost:
    """What one operation cost."""

    calls: float
    requests: float
    megabytes: float
    seconds: float

    def __str__(self) -> str:
        sent = f" {self.requests:,.0f} req" if self.requests else ""
        return f"{self.calls:,.0f}{sent}, {self.megabytes:,.1f} MB, {self.seconds:.2f} s"


class Counter:
    """Counts the calls of the operating system that Python's library makes, and the requests of its HTTP client."""

    _EVENTS = ("open", "os.", "shutil.", "socket.connect", "sqlite3.connect")
    _QUIET = ("stat", "lstat", "readlink", "fsync", "access")
    """Calls of ``os`` that raise no audit event."""

    def __init__(self) -> None:
        self.calls = self.requests = 0
        self.jvm: int | None = None
        sys.addaudithook(self._count)
        for name in self._QUIET:
            setattr(os, name, self._counting(getattr(os, name)))
        sent = HTTPConnection.putrequest

        def putrequest(connection: HTTPConnection, *arguments: Any, **options: Any) -> None:
            self.requests += 1
            sent(connection, *arguments, **options)

        HTTPConnection.putrequest = putrequest  # type: ignore[method-assign]

    def cost(self, action: Callable[[], Any]) -> Cost:
        """Do something and return what it cost."""
        calls, requests, size, began = self.calls, self.requests, self._bytes(), time.perf_counter()
        action()
        seconds = time.perf_counter() - began
        read = self._bytes() - size
        return Cost(self.calls - calls, self.requests - requests, read / 2**20, seconds)

    def _count(self, event: str, _: Any) -> None:
        if event.startswith(self._EVENTS):
            self.calls += 1

    def _counting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            return call(*arguments, **options)

        return counted

    def _bytes(self) -> int:
        processes = ["self"] + ([str(self.jvm)] if self.jvm is not None else [])
        lines = [line for process in processes for line in Path(f"/proc/{process}/io").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar", "wchar")))


def main() -> None:
    options = arguments()
    lake = {"type": "iceberg", **options.lake}
    figures: dict[str, dict[int, Cost]] = {}
    counter = Counter()
    with tempfile.TemporaryDirectory(prefix="growth-", dir=HERE) as name:
        folder = Path(name)
        catalogs = {LAKE: lake, **KEEPING, **expiring(options.sizes)}
        runtime = open_runtime(folder, joints(options.sizes), catalogs)
        benchmark = Benchmark(runtime, folder, counter, options.sizes, figures)
        if {"files", "versions", "tables"} & set(options.parts):
            spark = start_spark(runtime)
            counter.jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        print(f"- sizes {', '.join(f'{size:,}' for size in options.sizes)}; load average before: {load()}", flush=True)
        for part in options.parts:
            getattr(benchmark, part)()
        print(f"- load average afterwards: {load()}\n\n{report(figures, options.sizes)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000], help="default 10 100 1000")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what grows (default all)")
    parser.add_argument("--lake", type=json.loads, default=HADOOP, help="the options of the Iceberg catalog, as JSON")
    return parser.parse_args()


PARTS = ("files", "versions", "tables", "landed", "partitions")
KEEPING = {"versions": {"type": "filesystem", "path": "versions", "versions": 1_000_000}}
"""The catalog ``filesystem`` of the tables with many versions."""


def expiring(sizes: Sequence[int]) -> dict[str, Mapping[str, Any]]:
    """Return catalogs ``filesystem`` that retain so many versions, by name."""
    return {f"keeps_{size}": {"type": "filesystem", "path": f"keeps_{size}", "versions": size} for size in sizes}


def table_name(what: str, mode: str, size: int) -> str:
    """Return the name of a table."""
    return f"{what}_{mode}_{size}"


def joints(sizes: Sequence[int]) -> list[Joint]:
    """Return a sink for each mode and size of the parts ``files`` and ``versions``, and a source of landed files."""
    found = [Joint(name="batch", type="source", catalog="raw", table="batch.parquet")]
    places = {"files": RESULTS, "lakefiles": LAKE, "versions": "versions", "lakeversions": LAKE}
    for what, catalog in places.items():
        for mode, strategy in MODES.items():
            for size in sizes:
                name = table_name(what, mode, size)
                fields: Any = {"catalog": catalog, "table": name, "write_strategy": strategy}
                fields |= {"quality": {"assertions": GATES[mode]}} if mode in GATES else {}
                found.append(Joint(name=name, type="sink", upstream=("batch",), **fields))
    for size in sizes:
        found.append(Joint(name=f"landed_{size}", type="source", catalog="raw", table=f"landed_{size}"))
        target = {"catalog": RESULTS, "table": f"of_landed_{size}"}
        found.append(Joint(name=f"of_landed_{size}", type="sink", upstream=(f"landed_{size}",), **target))
    return found


class Benchmark:
    """Histories of each size, and the operations upon them, whose costs come into ``figures`` by name and size."""

    def __init__(
        self,
        runtime: Runtime,
        folder: Path,
        counter: Counter,
        sizes: Sequence[int],
        figures: dict[str, dict[int, Cost]],
    ) -> None:
        self.runtime = runtime
        self.folder = folder
        self.counter = counter
        self.sizes = sizes
        self.figures = figures
        self.numbers = count()
        (folder / "data").mkdir()
        pq.write_table(rows(range(BATCH)), folder / "data/batch.parquet")

    def files(self) -> None:
        """Write a batch to tables of many files."""
        for what, catalog in (("files", RESULTS), ("lakefiles", LAKE)):
            for mode in MODES:
                for size in self.sizes:
                    table = table_name(what, mode, size)
                    run(self.runtime, table)
                    add_files(self.runtime.base_catalog(catalog), table, self.files_of_history(size))
                    self.measure(
                        f"{mode}, files of a table in {kind(catalog)}",
                        size,
                        partial(run, self.runtime, table),
                        before=3,
                    )

    def versions(self) -> None:
        """Write a batch to tables of many versions, and look these up."""
        for what, name in (("versions", "versions"), ("lakeversions", LAKE)):
            catalog: Any = self.runtime.base_catalog(name)
            for mode in ("append", "merge"):
                for size in self.sizes:
                    table = table_name(what, mode, size)
                    run(self.runtime, table)
                    add_versions(catalog, table, size, self.folder)
                    self.measure(
                        f"{mode}, versions of a table in {kind(name)}", size, partial(run, self.runtime, table)
                    )
                    if mode == "append":
                        self.look_up(catalog, table, kind(name), size)

        for size in self.sizes:
            keeping: Any = self.runtime.base_catalog(f"keeps_{size}")
            add_versions(keeping, "expiring", size, self.folder)
            again = partial(publish, keeping, "expiring", self.folder)
            self.measure("publication that expires a version, versions of a table in filesystem", size, again)

    def look_up(self, catalog: Any, table: str, where: str, size: int) -> None:
        """Look up the versions of a table, and do its upkeep, for which no version is old enough."""
        operations: dict[str, Callable[[], Any]] = {
            "current version": lambda: catalog.current(table),
            "version of the first run": lambda: catalog.published_by(table, "history 1"),
            "versions list": lambda: catalog.versions(table),
        }
        if isinstance(catalog, IcebergCatalog):
            with closing(self.runtime.engine(ENGINE).session()) as session:
                self.measure(f"upkeep, versions of a table in {where}", size, partial(catalog.upkeep, table, session))
        for name, operation in operations.items():
            self.measure(f"{name}, versions of a table in {where}", size, operation)

    def tables(self) -> None:
        """Sweep catalogs of many tables, merge an environment of one table of them, and load their definitions.

        Stage all tables and publish them in the last step of a run.
        """
        lake: Any = self.runtime.base_catalog(LAKE)
        made = 0
        for size in self.sizes:
            add_tables(lake, made, size)
            made = size
            self.measure("sweep, tables of a catalog Iceberg", size, lambda: sweep([lake]))
            self.measure("environment of one table in Iceberg, diff and merge", size, partial(self.environment, lake))
        for size in self.sizes:
            root = self.folder / f"tables_{size}"
            root.mkdir()
            sinks = [Joint(name="batch", type="source", catalog="raw", table="batch.parquet")]
            for number in range(size):
                fields: Any = {"catalog": RESULTS, "table": f"t{number}"}
                sinks.append(Joint(name=f"t{number}", type="sink", upstream=("batch",), **fields))
            runtime = open_runtime(root, sinks)
            catalog: Any = runtime.base_catalog(RESULTS)
            for number in range(size):
                publish(catalog, f"t{number}", self.folder)
            self.measure("sweep, tables of a catalog filesystem", size, lambda c=catalog: sweep([c]))
            self.measure(
                "publish one table, tables of a catalog filesystem", size, partial(publish, catalog, "t0", self.folder)
            )
            self.measure(
                "environment of one table in filesystem, diff and merge", size, partial(self.environment, catalog)
            )
            self.measure("stage and publish a run of all tables", size, partial(self.publish_run, runtime, size))
            self.measure("load definitions, tables", size, partial(load_definitions, root, joints=sinks))

    def environment(self, catalog: Any) -> None:
        """Make an environment, publish a table there, look at what was built, and merge it."""
        name = f"pr-{next(self.numbers)}"  # a merged environment is over
        catalog.use_environment(name, "default")
        engine = self.runtime.engine(ENGINE)
        with closing(engine.session()) as session, catalog.in_environment(name).begin("t0", session) as transaction:
            transaction.write(ReplaceAll(), session.from_value(rows(range(BATCH))))
            transaction.commit("history")
        assert len(catalog.built(name)) == 1
        catalog.merge(name)

    def publish_run(self, runtime: Runtime, size: int) -> None:
        """Stage each table and publish all."""
        catalog: Any = runtime.base_catalog(RESULTS)
        run_id, staged = f"run-{next(self.numbers)}", []
        for number in range(size):
            table, identity = f"t{number}", f"{run_id}/t{number}"
            with catalog.begin(table) as transaction:
                copyfile(self.folder / "data/batch.parquet", Path(transaction.target.paths[0]) / "part.parquet")
                version = transaction.stage(identity)
            staged.append(StagedResult(table, RESULTS, table, version.version, identity))
        assert len(publish_run(runtime, staged).published) == size

    def landed(self) -> None:
        """Evaluate the sensor of a folder of many files: none of them is new after the first tick, or one is."""
        project = RivetProject.of(self.runtime.assembly, self.runtime.root, DagsterRivetTranslator())
        for size in self.sizes:
            files = self.folder / f"data/landed_{size}"
            files.mkdir()
            one = self.files_of_history(1)[0]
            for number in range(size):
                os.link(one, files / f"{number}.parquet")
            sensor = build_files_sensor(project, f"landed_{size}", f"landed_{size}", f'key:"of_landed_{size}"')
            with dg.DagsterInstance.ephemeral() as instance:
                cursor: list[str | None] = [None]

                def tick(sensor: Any = sensor, instance: Any = instance, cursor: Any = cursor) -> None:
                    context = dg.build_sensor_context(instance=instance, cursor=cursor[0])
                    cursor[0] = sensor.evaluate_tick(context).cursor or cursor[0]

                self.measure("tick of a files sensor, files that landed", size, tick)

    def partitions(self) -> None:
        """Compute a range of partitions in one run of Dagster, whose instance stores its events in SQLite."""
        for size in self.sizes:
            root = self.folder / f"partitions_{size}"
            root.mkdir()
            first = date(2000, 1, 1)
            days = [str(first + timedelta(days=number)) for number in range(size)]
            parts = {"type": "daily", "column": "day", "start": days[0], "end": str(first + timedelta(days=size))}
            sinks = [
                Joint(name="days", type="source", catalog="raw", table="days.parquet"),
                Joint(name="report", type="sql", sql="SELECT * FROM days", catalog=RESULTS, partitions=parts),
            ]
            open_runtime(root, sinks)
            (root / "data").mkdir(exist_ok=True)
            columns = {f"c{number}": pa.array([1] * size) for number in range(30)}
            pq.write_table(pa.table({"day": days, **columns}), root / "data/days.parquet")
            definitions = load_definitions(root, joints=sinks, executor=dg.in_process_executor)
            job = definitions.resolve_job_def("all_daily")
            ends = {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[-1]}
            with dg.instance_for_test(temp_dir=str(root / "data")) as instance:
                action = partial(job.execute_in_process, instance=instance, tags=ends, run_config=QUIET)
                self.measure("backfill of a range in one run, partitions", size, action)

    def files_of_history(self, number: int) -> list[Path]:
        """Return files of ten rows each, whose ids follow each other."""
        folder = self.folder / "history"
        folder.mkdir(exist_ok=True)
        paths = [folder / f"{n}.parquet" for n in range(number)]
        for n, path in enumerate(paths):
            if not path.exists():
                pq.write_table(rows(range((n + 1) * BATCH, (n + 2) * BATCH)), path)
        return paths

    def measure(self, operation: str, size: int, action: Callable[[], Any], before: int = 1) -> None:
        """Do an operation some times ``before``, and note the cost of the next time."""
        for _ in range(before):
            action()
        cost = self.counter.cost(action)
        self.figures.setdefault(operation, {})[size] = cost
        print(f"  {operation}, {size:,}: {cost}", file=sys.stderr, flush=True)


def kind(catalog: str) -> str:
    """Return what kind a catalog is of."""
    return "Iceberg" if catalog == LAKE else "filesystem"


def rows(ids: range) -> pa.Table:
    """Return rows, of which ten each are a part."""
    parts = pa.array([number // BATCH for number in ids], pa.int64())
    return pa.table({"id": pa.array(ids, pa.int64()), "part": parts, "text": [f"row {number}" for number in ids]})


def add_files(catalog: Any, table: str, files: Sequence[Path]) -> None:
    """Add files to a published table."""
    if isinstance(catalog, IcebergCatalog):
        catalog.access.load(table).add_files([str(path) for path in files], check_duplicate_files=False)
        return
    before = catalog.read(catalog.current(table)).paths[0]
    with catalog.begin(table) as transaction:
        folder = Path(transaction.target.paths[0])
        for path in (*files, *Path(before).glob("*.parquet")):
            os.link(path, folder / path.name)
        transaction.commit("history")


def add_tables(catalog: Any, first: int, end: int) -> None:
    """Make Iceberg tables of one file each, in a namespace of their own."""
    plain = catalog.access.catalog
    plain.create_namespace_if_not_exists("shop")
    for number in range(first, end):
        table = plain.create_table(f"shop.t{number}", rows(range(1)).schema)
        table.append(rows(range(BATCH)))


def publish(catalog: Any, table: str, folder: Path) -> str:
    """Publish a table of one file, and return the version."""
    with catalog.begin(table) as transaction:
        os.link(folder / "data/batch.parquet", Path(transaction.target.paths[0]) / "part.parquet")
        version: str = transaction.commit("history").version
    return version


def add_versions(catalog: Any, table: str, number: int, folder: Path) -> None:
    """Add versions that runs published before, as their catalog stores them, on Iceberg all in one commit."""
    if not isinstance(catalog, IcebergCatalog):
        add_version_folders(catalog.layout(table), publish(catalog, table, folder), number)
        return
    from pyiceberg.table import update

    found = catalog.access.load(table)
    last = found.current_snapshot()
    assert last is not None
    assert last.summary is not None
    updates: list[Any] = []
    sequence = found.metadata.last_sequence_number
    for n in range(1, number + 1):
        facts = {**last.summary.additional_properties, "rivet.identity": f"history {n}"}
        changed = {"snapshot_id": n, "sequence_number": sequence + n, "timestamp_ms": last.timestamp_ms + n}
        parent = n - 1 or last.snapshot_id
        summary = type(last.summary)(last.summary.operation, **facts)
        snapshot = last.model_copy(update={**changed, "parent_snapshot_id": parent, "summary": summary})
        reference = {"ref-name": "main", "type": "branch", "snapshot-id": n}
        updates.append(update.AddSnapshotUpdate.model_validate({"snapshot": snapshot}))
        updates.append(update.SetSnapshotRefUpdate.model_validate(reference))
    found.catalog.commit_table(found, (), tuple(updates))


def add_version_folders(table: TableLayout, published: str, number: int) -> None:
    """Add versions before the ``published`` one: a folder with its file, a manifest and a line of the record each."""
    (file,) = table.data(published).iterdir()
    fields = json.loads(table.manifest(published).read_text())
    names = [f"00000000-{n:08x}" for n in range(number)]
    lines = []
    for n, (name, base) in enumerate(zip(names, [None, *names], strict=False)):
        older = fields | {"version": name, "base": base, "identity": f"history {n}"}
        table.data(name).mkdir()
        os.link(file, table.data(name) / file.name)
        table.manifest(name).write_text(json.dumps(older))
        lines.append(json.dumps({key: older[key] for key in older if key not in ("columns", "landed")}) + "\n")
    table.publishers.write_text("".join(lines))
    table.manifest(published).write_text(json.dumps(fields | {"base": names[-1]}))


def report(figures: Mapping[str, Mapping[int, Cost]], sizes: Sequence[int]) -> str:
    """Return the figures as Markdown: the cost at each size, and the exponents between the two largest."""
    header = ("operation, what grows", *(f"{size:,}" for size in sizes), "exponent of calls", "of bytes", "of seconds")
    lines = []
    for operation, costs in figures.items():
        pairs = [
            (costs[size].calls + costs[size].requests, costs[size].megabytes, costs[size].seconds) for size in sizes
        ]
        exponents = [f"{exponent(*of_one, *sizes[-2:]):.2f}" for of_one in zip(*pairs[-2:], strict=True)]
        lines.append((operation, *(str(costs[size]) for size in sizes), *exponents))
    return markdown(header, lines)


def exponent(less: float, more: float, small: int, large: int) -> float:
    """Return the power of the size with which a cost grows.

    >>> exponent(10, 1000, 10, 100)
    2.0
    """
    return math.log(max(more, 1e-9) / max(less, 1e-9)) / math.log(large / small)


if __name__ == "__main__":
    main()
