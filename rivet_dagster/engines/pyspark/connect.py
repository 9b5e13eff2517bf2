"""Spark on a server, over Spark Connect."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.adapter import SparkAdapter
from rivet_dagster.engines.pyspark.plans import asked
from rivet_dagster.engines.pyspark.stages import See, heard

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class ConnectAdapter(SparkAdapter):
    """A session on a Spark Connect server."""

    @property
    def identity(self) -> str:
        """The session's id."""
        return str(self._connect.session_id)

    @property
    def is_stopped(self) -> bool:
        """Whether the session has ended."""
        return bool(self._connect.is_stopped)

    @property
    def sees_local_files(self) -> bool:
        """No: the server may be anywhere."""
        return False

    def new_session(self) -> ConnectAdapter:
        """Begin a session over the same address and credentials: Connect has no newSession()."""
        builder: Any = type(self._connect).builder
        return ConnectAdapter(builder.channelBuilder(self._connect.client._builder).create())

    def begin(self, *tags: str) -> None:
        """Tag the operations of the calling thread."""
        for tag in tags:
            self.spark.addTag(tag)

    def cancel(self, tag: str) -> None:
        """Interrupt the operations under ``tag`` that run now."""
        self.spark.interruptTag(tag)

    def watch(self, tag: str, see: See) -> AbstractContextManager[None]:
        """Hear of all that the session runs: the server does not say under which tag, and it does one thing a time."""
        return heard(self.spark, see)

    def explain(self, frame: DataFrame, tag: str) -> Callable[[], QueryPlan]:
        """Ask the server for the plan, beside what comes next."""
        return asked(self.spark, frame)

    def analyzed(self, frame: DataFrame) -> DataFrame:
        """Return a frame over a view of ``frame``: the server analyzes that once, else with every use and anew."""
        name = f"rivet_{uuid.uuid4().hex}"
        frame.createTempView(name)
        return self.spark.table(name)

    def adopted(self, frame: Any) -> DataFrame:
        """Return ``frame``, or its rows: the server keeps sessions apart, so that only these can cross."""
        if frame.sparkSession.session_id == self._connect.session_id:
            return frame  # type: ignore[no-any-return]
        return self.spark.createDataFrame(frame.toArrow())

    def batches(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Yield the rows as the server sends them."""
        connect_frame: Any = frame
        plan = connect_frame._plan.to_proto(self._connect.client)
        for part in self._connect.client.to_table_as_iterator(plan, {}):
            if hasattr(part, "to_batches"):  # else it is the schema
                yield from part.to_batches()

    def close(self) -> None:
        """End the session on the server, and its views with it."""
        self.spark.stop()

    @property
    def _connect(self) -> Any:
        return self.spark
