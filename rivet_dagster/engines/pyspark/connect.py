"""The adapter for Spark on a server, over Spark Connect."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.adapter import SparkAdapter
from rivet_dagster.engines.pyspark.plans import plan_requested
from rivet_dagster.engines.pyspark.stages import StageListener, stages_received

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
        """False, since the server may run on another machine."""
        return False

    def new_session(self) -> ConnectAdapter:
        """Begin a session with the same address and credentials, since Connect has no newSession()."""
        builder: Any = type(self._connect).builder
        return ConnectAdapter(builder.channelBuilder(self._connect.client._builder).create())

    def begin(self, *tags: str) -> None:
        """Tag the operations of the calling thread."""
        for tag in tags:
            self.spark.addTag(tag)

    def cancel(self, tag: str) -> None:
        """Interrupt the operations under ``tag`` that run now."""
        self.spark.interruptTag(tag)

    def listen(self, tag: str, listener: StageListener) -> AbstractContextManager[None]:
        """Receive the stages of all that the session runs, one action at a time; the server does not send the tag."""
        return stages_received(self.spark, listener)

    def explain(self, frame: DataFrame, tag: Callable[[], str]) -> Callable[[], QueryPlan]:
        """Ask the server for the plan, in parallel with the write."""
        return plan_requested(self.spark, frame)

    def analyzed(self, frame: DataFrame) -> DataFrame:
        """Return a frame over a view of ``frame``, which the server analyzes once, and not again with every use."""
        name = f"rivet_{uuid.uuid4().hex}"
        frame.createTempView(name)
        return self.spark.table(name)

    def adopted(self, frame: Any) -> DataFrame:
        """Return ``frame``, or, if it belongs to another session, a frame over its rows: the server shares no plans."""
        if frame.sparkSession.session_id == self._connect.session_id:
            return frame  # type: ignore[no-any-return]
        return self.spark.createDataFrame(frame.toArrow())

    def resolved(self, frame: DataFrame) -> DataFrame:
        """Return ``frame`` itself, which is over a view of its own."""
        return frame

    def batches(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Yield the rows as the server sends them."""
        connect_frame: Any = frame
        plan = connect_frame._plan.to_proto(self._connect.client)
        for part in self._connect.client.to_table_as_iterator(plan, {}):
            if hasattr(part, "to_batches"):  # otherwise it is the schema
                yield from part.to_batches()

    def close(self) -> None:
        """End the session on the server, and its views with it."""
        client = self._connect.client
        self.spark.stop()
        # When the session is collected as garbage, pyspark closes its client once more: in whatever thread that is,
        # maybe in one that holds the lock for which closing waits.
        client.close = _nothing

    @property
    def _connect(self) -> Any:
        return self.spark


def _nothing() -> None:
    """Do nothing: the client is closed already."""
