"""The adapter for Spark on a server, over Spark Connect."""

from __future__ import annotations

import atexit
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.pyspark.adapter import SparkAdapter
from rivet_dagster.engines.pyspark.progress import StageListener, stages_received
from rivet_dagster.engines.pyspark.results import plan_requested
from rivet_dagster.engines.pyspark.waiting import THREAD_PREFIX, lost_connection_errors
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Observation, SparkSession


class OwnServer(Protocol):
    """A server that the project has started, on this machine."""

    @property
    def is_running(self) -> bool:
        """Whether it still runs."""

    @property
    def sees_local_files(self) -> bool:
        """Whether its executors run on this machine."""

    def ended(self) -> RivetError:
        """Return RVT-521 for what ran on the server when it ended."""


class ConnectAdapter(SparkAdapter):
    """A session on a Spark Connect server: the project's ``own`` one, or one that others have started."""

    def __init__(self, spark: SparkSession, own: OwnServer | None = None) -> None:
        super().__init__(spark)
        self._own = own
        self._opened: set[ConnectAdapter] = {self}
        if own is not None:
            self._connect.client.set_retry_policies([_retries(own)])

    @property
    def identity(self) -> str:
        """The session's id."""
        return str(self._connect.session_id)

    @property
    def is_stopped(self) -> bool:
        """Whether the session has ended, or the project's own server."""
        return bool(self._connect.is_stopped) or (self._own is not None and not self._own.is_running)

    @property
    def sees_local_files(self) -> bool:
        """Whether this is the project's own server, with executors on this machine; others may run anywhere."""
        return self._own is not None and self._own.sees_local_files

    def lost(self) -> RivetError | None:
        """Return RVT-521 if the project's own server has ended."""
        return None if self._own is None or self._own.is_running else self._own.ended()

    def new_session(self) -> ConnectAdapter:
        """Begin a session with the same address and credentials, since Connect has no newSession()."""
        builder: Any = type(self._connect).builder
        session = ConnectAdapter(builder.channelBuilder(self._connect.client._builder).create(), self._own)
        session._opened = self._opened
        self._opened.add(session)
        return session

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

    def observed(self, observation: Observation) -> Mapping[str, Any]:
        """Return what the server has sent with the end of the write."""
        return observation.get

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

    @property
    def drops_slow_readers(self) -> bool:
        """True: for the server, a client that does not read is one that has died."""
        return True

    @property
    def keeps_views(self) -> bool:
        """False: the server ends the session with its views."""
        return False

    def close_at_exit(self) -> None:
        """Close the session, and those that were begun from it and are still open, when this process ends.

        Python's own end would close their channels after it has stopped the channels' threads, and wait for them
        forever; the server would keep what is not closed for a day.
        """
        atexit.register(self._close_all)

    def keep_alive(self, every: float) -> None:
        """Ask the server something for each open session, ``every`` so many seconds, until this process ends."""

        def ask() -> None:
            while not self.is_stopped:
                time.sleep(every)
                for session in tuple(self._opened):
                    with suppress(RivetError, *lost_connection_errors()):  # whoever uses the session next is told
                        session.spark.conf.get("spark.sql.session.timeZone")

        threading.Thread(target=ask, name=f"{THREAD_PREFIX}alive", daemon=True).start()

    def _close_all(self) -> None:
        """Close the sessions, by one attempt each: a server that is gone holds up no process that ends."""
        for session in tuple(self._opened):
            session._connect.client.set_retry_policies([])
            session.close()

    def close(self) -> None:
        """End the session on the server, and its views with it."""
        client = self._connect.client
        self._opened.discard(self)
        self.spark.stop()
        # When the session is collected as garbage, pyspark closes its client once more: in whatever thread that is,
        # maybe in one that holds the lock for which closing waits.
        client.close = _nothing

    @property
    def _connect(self) -> Any:
        return self.spark


def _retries(own: OwnServer) -> Any:
    """Return a policy of retries: none once the server has ended, and else for some seconds, not for ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    class WhileItRuns(DefaultPolicy):
        def can_retry(self, e: BaseException) -> bool:
            return own.is_running and super().can_retry(e)

    return WhileItRuns(max_retries=6, max_backoff=2000)


def _nothing() -> None:
    """Do nothing: the client is closed already."""
