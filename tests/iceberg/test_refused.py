"""What an Iceberg catalog refuses: one RivetError each, with the place and a remedy, after which nothing is left."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchPropertyException
from pyiceberg.view.metadata import ViewVersion
from sqlalchemy import text
from support.iceberg import declared
from support.iceberg_runs import ERRORS, NAMESPACE, TABLE, UPSERT, Work, heartbeats, lake, run, written
from support.killing import PROCESSES, ended, start
from support.tables import refused, tree

from rivet_dagster.catalogs.iceberg import rest_catalog
from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog
from rivet_dagster.catalogs.iceberg.metadata.history import EXPIRED, published_snapshots
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction
from rivet_dagster.errors import RivetError

OLD, NEW = Work([1, 2], 1), Work([2, 3], 2, identity="new/orders")
NAME = (NAMESPACE, TABLE)


def ids(place) -> list[int]:
    return sorted(place.plain.load_table(NAME).scan().to_arrow()["id"].to_pylist())


def assert_nothing_is_left(place) -> None:
    """Assert that there are no branches, staging tables and heartbeats."""
    for name in place.plain.list_tables(NAMESPACE):
        assert name[-1] in (TABLE, ERRORS)
        assert set(place.plain.load_table(name).metadata.refs) <= {"main"}
    assert heartbeats(place.root) == []


# What others do to a table during a run


def drops_the_branch(plain) -> None:
    """Remove the branches of all runs."""
    table = plain.load_table(NAME)
    with table.manage_snapshots() as snapshots:
        for name in table.metadata.refs.keys() - {"main"}:
            snapshots.remove_branch(name)


def writes_to_the_branch(plain) -> None:
    """Append to the branches of all runs."""
    table = plain.load_table(NAME)
    for name in table.metadata.refs.keys() - {"main"}:
        table.append(OLD.rows, branch=name)


def drops_the_staging_table(plain) -> None:
    """Drop the staging tables of all runs."""
    for name in plain.list_tables(NAMESPACE):
        if "__rivet_" in name[-1]:
            plain.drop_table(name)


def publishes(plain) -> None:
    """Append to the table."""
    plain.load_table(NAME).append(OLD.rows)


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(
    ("interferes", "work", "code", "words"),
    [
        (drops_the_branch, NEW, "RVT-406", "of 'shop.orders' has been removed"),
        (drops_the_branch, replace(NEW, plan=UPSERT), "RVT-406", "of 'shop.orders' has been removed"),
        (writes_to_the_branch, NEW, "RVT-407", "of 'lake.shop.orders' has changed"),
        (drops_the_staging_table, replace(NEW, adds=True), "RVT-406", "__rivet_new_orders_"),
        (publishes, NEW, "RVT-405", "'lake.shop.orders' has been published by another run since"),
        (publishes, replace(NEW, adds=True), "RVT-405", "'lake.shop.orders' has been published by another run since"),
    ],
)
def test_what_others_do_to_a_table_during_a_run(place, interferes, work, code, words):
    for errors in (None, ["some"]):
        run(place.catalog, OLD, place.root)
        transaction = written(place.catalog, replace(work, errors=errors), place.root)
        interferes(place.plain)
        error = refused(transaction.commit, work.identity)
        assert (error.code, words in str(error)) == (code, True), error
        assert interferes is publishes or "rivet_new_orders_" in str(error)
        transaction.abort()
        assert ids(place) == ([1, 1, 2, 2] if interferes is publishes else [1, 2])
        assert_nothing_is_left(place)
        assert refused(place.catalog.relation, ERRORS, {}).code == "RVT-403"


def test_a_table_that_is_dropped_during_a_run(place):
    for work in (NEW, replace(NEW, adds=True), replace(NEW, errors=["some"])):
        run(place.catalog, OLD, place.root)
        transaction = written(place.catalog, work, place.root)
        place.plain.drop_table(NAME)
        error = refused(transaction.commit, work.identity)
        assert error.code in ("RVT-403", "RVT-405", "RVT-406")
        assert "orders" in str(error)
        transaction.abort()
        assert_nothing_is_left(place)
        assert place.catalog.current(TABLE) is None


def test_an_engine_that_dies_in_the_write(place, monkeypatch):
    died = RivetError("RVT-510", "Connection refused")

    def dies(*arguments: object, **options: object) -> None:
        raise died

    for work in (OLD, NEW, replace(NEW, adds=True), replace(NEW, plan=UPSERT)):
        with monkeypatch.context() as patch:
            patch.setattr("support.iceberg_duckdb.IcebergDuckDB.write", dies)
            error = refused(run_in_a_block, place, work)
        assert error is died
        assert_nothing_is_left(place)
        if work is OLD:
            assert tree(place.root / "lake/warehouse") == [NAMESPACE]
            run(place.catalog, OLD, place.root)
        assert ids(place) == [1, 2]


def run_in_a_block(place, work: Work) -> None:
    """Write within the block of the transaction, as runs do."""
    from support.iceberg_duckdb import session

    from rivet_dagster.catalogs.capabilities.transaction import WriteContext

    engine = session(place.root, lake=place.options)
    with place.catalog.begin(TABLE, engine) as transaction:
        transaction.write(work.plan, engine.from_value(work.rows), WriteContext(identity=work.identity))


# What is not there


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ("oders", {}, "shop.oders does not exist"),
        ("nowhere.orders", {}, "nowhere.orders does not exist"),
        (TABLE, {"branch": "adit"}, "has no branch 'adit'; did you mean 'audit'?"),
        (TABLE, {"branch": "v1"}, "has no branch 'v1'"),
        (TABLE, {"tag": "v2"}, "has no tag 'v2'"),
        (TABLE, {"snapshot_id": 17}, "17"),
        (TABLE, {"as_of": "2020-01-01"}, "has no snapshot of 2020-01-01"),
    ],
)
def test_a_state_of_a_source_that_is_not_there(place, table, options, words):
    run(place.catalog, OLD, place.root)
    found = place.plain.load_table(NAME)
    with found.manage_snapshots() as snapshots:
        snapshot = found.metadata.current_snapshot_id
        snapshots.create_branch(snapshot, "audit").create_tag(snapshot, "v1")
    for read in (place.catalog.relation, place.catalog.columns, place.catalog.data_version):
        error = refused(read, table, options)
        assert error.code == "RVT-403"
        assert words in str(error)
        assert error.diagnostics[0].remediation


def test_a_table_of_a_later_format_is_not_published_to_and_is_told_before_anything_is_computed(place):
    place.plain.create_namespace(NAMESPACE)
    place.plain.create_table(NAME, OLD.rows.schema)
    (metadata,) = (place.root / "lake/warehouse" / NAMESPACE / TABLE / "metadata").glob("*.metadata.json")
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "format-version": 3, "next-row-id": 0}))
    error = refused(place.catalog.begin, TABLE)
    assert error.code == "RVT-402"
    assert "format version 3" in str(error)
    assert place.catalog.data_version(TABLE, {}) == "empty"
    assert_nothing_is_left(place)


# What is no table


@pytest.mark.parametrize("file", [TABLE, f"{TABLE}/part-0.parquet"])
def test_files_where_a_table_should_be(place, file):
    folder = place.root / "lake/warehouse" / NAMESPACE
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_text("mine")
    before = tree(folder)
    error = refused(run_in_a_block, place, NEW)
    assert error.code == "RVT-404"
    assert f"something else in its place, with the file {file.rpartition('/')[2]}" in str(error)
    assert "Choose another name" in error.diagnostics[0].remediation
    assert tree(folder) == before


@pytest.mark.parametrize("error", [NoSuchIcebergTableError, NoSuchPropertyException])
def test_a_table_that_is_not_icebergs(place, monkeypatch, error):
    def no_iceberg(catalog, identifier):
        raise error(f"Property table_type is VIRTUAL_VIEW, expected iceberg: {identifier}")

    monkeypatch.setattr(HadoopCatalog, "load_table", no_iceberg)
    found = refused(run_in_a_block, place, NEW)
    assert found.code == "RVT-403"
    assert "the table shop.orders is not an Iceberg table: Property table_type is VIRTUAL_VIEW" in str(found)
    assert "Choose another name" in found.diagnostics[0].remediation
    assert tree(place.root / "lake") == []


def test_a_view_where_a_table_should_be(iceberg_options, tmp_path, monkeypatch):
    place = SimpleNamespace(root=tmp_path, options=iceberg_options("rest"))
    place.catalog, plain = lake(place.options, tmp_path), connect_catalog("plain", place.options, tmp_path)
    plain.create_namespace(NAMESPACE)
    query = {"type": "sql", "sql": "SELECT 1 AS id, 2 AS net", "dialect": "spark"}
    version = {"schema-id": 0, "default-namespace": [NAMESPACE], "representations": [query]}
    plain.create_view(NAME, OLD.rows.schema, ViewVersion.model_validate(version))
    error = refused(run_in_a_block, place, NEW)
    assert (error.code, "'lake.shop.orders' is a view" in str(error)) == ("RVT-404", True)
    assert "'lake.shop.orders' is a view" in str(refused(place.catalog.existing, TABLE))
    monkeypatch.setattr(RestCatalog, "view_exists", lambda catalog, name: False)  # a server that does not say
    error = refused(run, place.catalog, NEW, tmp_path)
    assert error.code == "RVT-404"
    assert "something of the name 'lake.shop.orders' that is no table" in str(error)
    assert (plain.list_tables(NAMESPACE), heartbeats(tmp_path)) == ([], [])
    assert list((tmp_path / "rest/warehouse").rglob("*.parquet")) == []


def test_a_view_in_a_database(tmp_path):
    options = declared("sqlite", tmp_path / "lake")
    catalog, plain = lake(options, tmp_path), connect_catalog("plain", options, tmp_path)
    plain.create_namespace(NAMESPACE)
    with plain.engine.begin() as database:  # as Java's catalog adds one
        row = f"('lake', '{NAMESPACE}', '{TABLE}', 'VIEW')"
        names = "catalog_name, table_namespace, table_name, iceberg_type"
        database.execute(text(f"INSERT INTO iceberg_tables ({names}) VALUES {row}"))
    error = refused(run, catalog, NEW, tmp_path)
    assert error.code == "RVT-404"
    assert "something of the name 'lake.shop.orders' that is no table" in str(error)
    assert list((tmp_path / "lake/warehouse").rglob("*.parquet")) == heartbeats(tmp_path) == []


@pytest.mark.parametrize("is_first", [True, False])
def test_a_warehouse_that_is_only_readable(is_first):
    with TemporaryDirectory() as folder:  # one that other users may enter
        root = Path(folder)
        options = declared("hadoop", root / "lake")
        (root / "lake/warehouse").mkdir()
        if not is_first:
            run(lake(options, root), OLD, root)
        for path in (root, *root.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = tree(root)
        test, child = PROCESSES.Pipe(duplex=False)
        process = start(publish_as_another_user, child, options, root)
        child.close()
        read, errors = test.recv()
        assert ended(process) == 0
        assert read == (None if is_first else [1, 2])
        for code, message, remedy in errors:
            assert (code, "access is refused" in message) == ("RVT-404", True), message
            assert "rights" in remedy
        assert tree(root) == before
        for path in (root, *root.rglob("*/")):
            path.chmod(0o755)


def publish_as_another_user(test, options, root) -> None:
    """Read the table and try to publish as a user who may only read; send the rows and the errors."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    place = SimpleNamespace(root=root, options=options, catalog=lake(options, root))
    published = place.catalog.current(TABLE)
    place.plain = connect_catalog("plain", options, root)
    errors = [refused(run_in_a_block, place, work).diagnostics[0] for work in (NEW, replace(NEW, plan=UPSERT))]
    (finding, *_) = place.catalog.examine(publishes=True)
    errors.append(SimpleNamespace(code=finding.code, message=finding.text, remediation=finding.remedy))
    facts = [(error.code, error.message, error.remediation) for error in errors]
    test.send((None if published is None else ids(place), facts))


# Servers


def test_a_server_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(rest_catalog, "ANSWER", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        token = {"credential": "a:hunter22", "oauth2-server-uri": f"http://{address}/tokens"}
        login = {"warehouse": "w", "jdbc.user": "a", "jdbc.password": "hunter22", "jdbc.connectTimeout": 1}
        for options in (
            {"catalog": "rest", "uri": f"http://{address}"},
            {"catalog": "rest", "uri": f"http://{address}", **token},
            {"catalog": "nessie", "uri": f"http://{address}/api/v2", "warehouse": "w"},
            {"catalog": "jdbc", "uri": f"jdbc:postgresql://{address}/lake", **login},
        ):
            began = time.monotonic()
            error = refused(connect_catalog, "lake", options, tmp_path)
            assert time.monotonic() - began < 10
            assert error.code == "RVT-403"
            assert "the Iceberg catalog 'lake' cannot be reached" in str(error)
            assert "hunter22" not in str(error)
            assert "uri" in error.diagnostics[0].remediation


SETTINGS = b'{"defaults": {}, "overrides": {}}'


@contextmanager
def answering(status: int, config: bytes = SETTINGS) -> Iterator[str]:
    """Run a server that gives its settings, and answers everything else with ``status``; yield its URI."""

    class Answers(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            is_config = self.path.partition("?")[0].endswith("/config") and config
            body = config if is_config else b'{"error": {"message": "no", "code": 1}}'
            self.send_response(200 if is_config else status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_HEAD = do_DELETE = _answer

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "words", "remedy"),
    [(401, "access is refused", "credentials"), (403, "access is refused", "rights"), (500, "no", ""), (503, "no", "")],
)
def test_a_server_that_refuses(tmp_path, status, words, remedy):
    with answering(status) as uri:
        catalog = lake({"catalog": "rest", "uri": uri}, tmp_path)
        for call, code in ((catalog.current, "RVT-403"), (catalog.begin, "RVT-404")):
            error = refused(call, TABLE)
            assert error.code in (code, "RVT-403")
            assert "catalog 'lake'" in str(error)
            assert words in str(error)
            assert remedy in error.diagnostics[0].remediation


def test_a_rest_catalog_of_nessie_is_for_sources_alone(place):
    settings = {"nessie.is-nessie-catalog": "true", "nessie.default-branch.name": "main"}
    with answering(404, json.dumps({"defaults": {}, "overrides": settings}).encode()) as uri:
        catalog = lake({"catalog": "rest", "uri": uri}, place.root)
        assert catalog.current(TABLE) is None
        error = refused(catalog.begin, TABLE)
        (finding,) = catalog.examine(publishes=True)
    assert (error.code, finding.code) == ("RVT-413", "RVT-413")
    assert "the server of the REST catalog 'lake' is Nessie" in str(error)
    assert "catalog: nessie" in error.diagnostics[0].remediation


VERSION = {"defaultBranch": "main", "maxSupportedApiVersion": 2, "specVersion": "2.2.0"}


@pytest.mark.nightly(but=3)
@pytest.mark.parametrize(
    ("config", "words", "remedy"),
    [
        (VERSION | {"maxSupportedApiVersion": 1}, "has no version 2", "Update the Nessie server"),
        (VERSION | {"specVersion": "2.0.0-beta.1"}, "specification 2.0.0-beta.1, and 2.0.0 is", "Update the Nessie"),
        ({"defaultBranch": "main", "maxSupportedApiVersion": 2}, "specification unknown", "Update the Nessie server"),
        (b"", "no REST interface of Nessie of the version 2", "Update the Nessie server"),
        (b"<html>", "is not Nessie", "Correct the catalog's options"),
        (VERSION, "404", "make that branch"),
    ],
)
def test_a_server_of_nessie_that_is_not_as_it_must_be(tmp_path, config, words, remedy):
    body = config if isinstance(config, bytes) else json.dumps(config).encode()
    with answering(404, body) as uri:
        options = {"catalog": "nessie", "uri": f"{uri}/api/v2", "ref": "main", "warehouse": str(tmp_path)}
        error = refused(lake(options, tmp_path).current, TABLE)
    assert error.code == "RVT-403"
    assert words in str(error)
    assert remedy in error.diagnostics[0].remediation


def test_a_server_of_nessie_that_cannot_be_reached(tmp_path, iceberg_options, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = {"catalog": "nessie", "uri": f"http://127.0.0.1:{port}/api/v2", "warehouse": str(tmp_path)}
    error = refused(lake(options, tmp_path).current, TABLE)
    assert (error.code, "the Iceberg catalog 'lake' cannot be reached" in str(error)) == ("RVT-403", True)
    assert "start what answers at its `uri`" in error.diagnostics[0].remediation
    place = SimpleNamespace(root=tmp_path, options=iceberg_options("nessie"))
    place.catalog = lake(place.options, tmp_path)
    run(place.catalog, OLD, tmp_path)
    gone = requests.ConnectionError("Connection refused")

    def refuses(*arguments: object, **options: object) -> None:
        raise gone

    monkeypatch.setattr(requests.Session, "request", refuses)
    for call, code in ((place.catalog.current, "RVT-403"), (place.catalog.begin, "RVT-403")):
        error = refused(call, TABLE)
        assert (error.code, "cannot be reached: Connection refused" in str(error)) == (code, True), error


def test_a_bucket_that_is_not_there(tmp_path, s3):
    options = declared("sqlite", tmp_path / "lake")
    catalog = lake(options | {"warehouse": "s3://nowhere-at-all/lake", **s3.iceberg_options}, tmp_path)
    place = SimpleNamespace(root=tmp_path, options=catalog.access.options, catalog=catalog)
    error = refused(run_in_a_block, place, NEW)
    assert error.code == "RVT-404"
    assert "nowhere-at-all" in str(error)
    assert not connect_catalog("plain", catalog.access.options, tmp_path).table_exists(NAME)
    assert catalog.building() == ()


# Interrupts


@pytest.mark.parametrize("after", [False, True])
def test_errors_are_taken_back_unless_the_interrupt_comes_after_the_commit_of_the_rows(place, monkeypatch, after):
    release = IcebergTransaction._release

    def interrupted(transaction, *arguments) -> None:
        if after:
            release(transaction, *arguments)
        raise KeyboardInterrupt

    for old, errors in ((None, ["new"]), (replace(OLD, errors=["old"], identity="old/orders"), ["newer"])):
        if old is not None:
            run(place.catalog, old, place.root)
        before = seen_errors(place)
        with monkeypatch.context() as patch:
            patch.setattr(IcebergTransaction, "_release", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run(place.catalog, replace(NEW, errors=errors, identity=f"{errors[0]}/orders"), place.root)
        assert seen_errors(place) == (errors if after else before)


def seen_errors(place) -> list[str] | None:
    """Return the errors of the current rows; None if there are none."""
    if place.catalog.current(TABLE) is None:
        assert not place.plain.table_exists((NAMESPACE, ERRORS))
        return None
    relation = place.catalog.errors_of(place.catalog.current(TABLE))
    assert relation == place.catalog.relation(ERRORS, {})
    scan = place.plain.load_table((NAMESPACE, ERRORS)).scan(snapshot_id=relation.snapshot)
    return scan.to_arrow()["message"].to_pylist()


# Retries


def test_a_retry_finds_what_it_has_published(place):
    first = run(place.catalog, OLD, place.root)
    later = run(place.catalog, NEW, place.root)
    for identity, expected in ((OLD.identity, first), (NEW.identity, later)):
        assert place.catalog.published_by(TABLE, identity) == expected
    assert place.catalog.published_by(TABLE, "other/orders") is None
    table = place.plain.load_table(NAME)
    snapshots = published_snapshots(table)
    facts = dict(snapshots[-1].summary.additional_properties)
    with table.transaction() as transaction:
        transaction.set_properties({EXPIRED: json.dumps({str(snapshots[-1].snapshot_id): facts})})
    table.maintenance.expire_snapshots().by_id(snapshots[-1].snapshot_id).commit()
    found = place.catalog.published_by(TABLE, OLD.identity)
    assert (found.version, found.identity, found.statistics.rows) == (first.version, OLD.identity, 2)
    assert refused(place.catalog.read, found).code == "RVT-401"
