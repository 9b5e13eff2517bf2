"""Runs of one group on an engine that needs no start and writes files like Spark."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.relations import Files
from support.projects import compile_joints, sink, sql

TABLE = "out"
FILES = 3
"""The number of data files of a version."""

_CHECK = {"type": "custom", "sql": f"SELECT * FROM {TABLE}", "samples": 0}
_PLAN = compile_joints(
    sql("numbers", "SELECT 1 AS id"), sink(TABLE, "numbers", quality={"assertions": [_CHECK]})
).raise_errors()


@dataclass(frozen=True)
class StandIn:
    """An engine and its session: each query returns these ids, and the check finds ``violations`` violations."""

    ids: Sequence[int]
    violations: int = 0

    def session(self) -> StandIn:
        """Return itself."""
        return self

    def load(self, relation: Files, projection: Any = None) -> Files:
        """Return what the check reads."""
        return relation

    def register(self, name: str, frame: Any) -> None:
        """Do nothing: nothing is read by name."""

    def views(self) -> AbstractContextManager[None]:
        """Do nothing: nothing is read by name."""
        return nullcontext()

    def query(self, text: str, parameters: Mapping[str, Any] | None = None) -> Sequence[int]:
        """Return the ids."""
        return self.ids

    def explain(self, frame: Any) -> Callable[[], QueryPlan]:
        """Return a fixed name."""
        return lambda: QueryPlan("stand-in")

    def write(self, frame: Sequence[int], target: Files, progress: Any = None, split_by: Any = ()) -> None:
        """Write the ids to several files."""
        try:
            write_as_spark_does(frame, Path(target.paths[0]))
        except OSError as error:
            raise RivetError("RVT-503", str(error)) from error

    def rows(self, text: str, parameters: Any = None, timeout: float | None = None) -> list[dict[str, int]]:
        """Return the result of the check."""
        return [{"violations": self.violations}]

    def close(self) -> None:
        """Do nothing."""


class StandInRuntime(Runtime):
    """A runtime of a project whose only table, ``out`` in the catalog ``lake``, is written by the stand-in."""

    def __init__(self, root: Path, engine: StandIn) -> None:
        super().__init__(_PLAN, root)
        self._stand_in = engine

    def engine(self, name: str) -> Any:
        """Return the stand-in."""
        return self._stand_in


def run(root: Path, ids: Sequence[int], violations: int = 0, engine: type[StandIn] = StandIn) -> GroupResult:
    """Replace the rows of ``out``, unless there are violations."""
    return run_group(StandInRuntime(root, engine(ids, violations)), TABLE, ["numbers", TABLE], str(uuid.uuid4()))


def write_as_spark_does(ids: Sequence[int], folder: Path) -> None:
    """Write files with unique names, each renamed when complete, and the other files that Spark leaves."""
    attempt = folder / "_temporary/0"
    attempt.mkdir(parents=True)
    job = uuid.uuid4()
    for number in range(FILES):
        name = f"part-{number:05}-{job}-c000.snappy.parquet"
        pq.write_table(pa.table({"id": pa.array(ids[number::FILES], pa.int64())}), attempt / name)
        (folder / f".{name}.crc").write_bytes(b"crc")
        os.rename(attempt / name, folder / name)
    attempt.rmdir()
    attempt.parent.rmdir()
    (folder / "_SUCCESS").touch()
