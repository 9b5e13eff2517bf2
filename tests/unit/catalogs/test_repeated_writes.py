"""Writes that Spark Connect's client has carried out twice, since the server does not know the first one any more."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.rpc.status_pb2 import Status
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.proto import base_pb2 as pb2
from pyspark.sql.connect.proto import base_pb2_grpc, commands_pb2
from support.duckdb_engine import DuckDBEngine
from support.tables import catalog, ids, refused

from rivet_dagster.catalogs.filesystem.writes.staged_version import refuse_repeated_write
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.row_errors import ERROR_COLUMNS
from rivet_dagster.model.write_plan import Append, ReplaceAll

NOT_FOUND = b"[INVALID_HANDLE.OPERATION_NOT_FOUND] The handle is invalid. Operation not found."


def as_spark_names_it(folder: Path) -> Path:
    return folder / f"part-00000-{uuid4()}-c000.snappy.parquet"


class Forgetful(base_pb2_grpc.SparkConnectServiceServicer):
    """A server that loses the connection after the first write, and does not know that any more."""

    def __init__(self) -> None:
        self.operations: list[str] = []

    def ExecutePlan(self, request, context):
        self.operations.append(request.operation_id)
        folder = Path(request.plan.command.write_operation.path)
        pq.write_table(pa.table({"id": [1, 2]}), as_spark_names_it(folder))
        if len(self.operations) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the machine slept")
        answer = {"session_id": request.session_id, "operation_id": request.operation_id, "response_id": "1"}
        yield pb2.ExecutePlanResponse(**answer, result_complete=pb2.ExecutePlanResponse.ResultComplete())

    def ReattachExecute(self, request, context):
        status = Status(code=grpc.StatusCode.INTERNAL.value[0], message=NOT_FOUND.decode())
        context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
        context.abort(grpc.StatusCode.INTERNAL, NOT_FOUND.decode())

    def ReleaseExecute(self, request, context):
        return pb2.ReleaseExecuteResponse(session_id=request.session_id)


@contextmanager
def serving(service: Forgetful) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def test_the_client_sends_a_write_again_and_its_files_tell(tmp_path):
    service = Forgetful()
    with serving(service) as address:
        client = SparkConnectClient(connection=address)
        client.set_retry_policies([DefaultPolicy(initial_backoff=10)])
        write = commands_pb2.WriteOperation(source="parquet", path=str(tmp_path), mode=1)
        client.execute_command(commands_pb2.Command(write_operation=write))
        client._channel.close()
    assert len(service.operations) == 2
    assert len(set(service.operations)) == 1
    error = refused(refuse_repeated_write, tmp_path.iterdir(), "orders")
    assert (error.code, "orders 2 times" in str(error)) == ("RVT-407", True)


@pytest.fixture
def session():
    with DuckDBEngine(EngineSpec("duck", "duckdb")).session() as session:
        yield session


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("part", ["rows", "join", "errors"])
def test_a_version_whose_rows_were_written_twice_is_not_published(tmp_path, session, monkeypatch, part, times):
    lake, write, writes = catalog(tmp_path, "lake"), session.write, []
    frame = session.from_value(pa.table({"id": [1]}))
    with lake.begin("orders", session) as transaction:
        transaction.write(ReplaceAll(), frame)
        transaction.commit("old")

    def as_spark_does(frame, target, *arguments, **options):
        writes.append(target)
        folder, scratch = Path(target.paths[0]), tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        wanted = {"rows": 1, "join": 2, "errors": 2}[part]
        for _ in range(times if len(writes) == wanted else 1):
            write(frame, type(target)("parquet", (str(scratch),)), *arguments, **options)
            (file,) = scratch.iterdir()
            file.rename(as_spark_names_it(folder))

    monkeypatch.setattr(session, "write", as_spark_does)
    if part == "join":
        monkeypatch.setattr("rivet_dagster.catalogs.filesystem.writes.staged_version.joined_count", lambda sizes: 1)
    errors = pa.Table.from_pylist([dict.fromkeys(ERROR_COLUMNS, "x") | {"line": 1, "found_at": datetime.now(UTC)}])

    def run() -> None:
        with lake.begin("orders", session) as transaction:
            transaction.write(Append(), session.from_value(pa.table({"id": [2]})))
            if part == "errors":
                transaction.write_errors("orders__errors", session.from_value(errors))
            transaction.commit("new")

    if times == 1:
        run()
    else:
        assert refused(run).code == "RVT-407"
    assert sorted(ids(tmp_path / "lake/orders")) == ([1, 2] if times == 1 else [1])
