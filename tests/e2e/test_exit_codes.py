"""Each exit code, by a real case of the installed executable."""

from __future__ import annotations

import pytest
from support.folders import MANIFEST, sink
from support.forked import executable
from support.small_shop import HAS_CUSTOMER, TEST, environ_with_duckdb, install_duckdb, small_shop

NEVER = {**HAS_CUSTOMER, "type": "row_count", "columns": None, "min": 1000}
FAILING = {key: value for key, value in NEVER.items() if value is not None}
PLAIN = sink("history", "paid")
WRONG = "SELECT no_such_function(id) AS id FROM paid"

CASES = {
    "ok": (0, {}, ["compile"]),
    "does not compile": (1, {"joints/wrong.sql": "-- rivet:upstream: ordres\nSELECT 1 AS id"}, ["compile"]),
    "a run fails": (1, {"joints/paid.sql": WRONG.replace("paid", "orders")}, ["run"]),
    "a part of a run fails": (
        2,
        {"rivet.yaml": {**MANIFEST, "fail_fast": False}, "joints/wrong.sql": WRONG, "sinks/w.yaml": sink("w", "wrong")},
        ["run"],
    ),
    "a test fails": (3, {"tests/revenue.test.yaml": TEST.replace("15}]}", "16}]}")}, ["test"]),
    "an assertion fails": (4, {"sinks/history.yaml": {**PLAIN, "quality": {"assertions": [FAILING]}}}, ["run"]),
    "an audit fails": (5, {"sinks/history.yaml": {**PLAIN, "quality": {"audits": [FAILING]}}}, ["run"]),
    "no such profile": (10, {}, ["run", "--profile", "defalt"]),
}


@pytest.fixture(scope="module")
def rivet_dagster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    with pytest.MonkeyPatch.context() as patch:
        install_duckdb(patch, folder)
    imported = ["rivet_dagster.cli.main", "rivet_dagster.definitions.load", "support.duckdb_engine"]
    with executable(environ_with_duckdb(folder), imported) as called:
        yield called


@pytest.mark.nightly(but=3)
@pytest.mark.parametrize(("code", "files", "given"), CASES.values(), ids=CASES)
def test_each_exit_code_has_its_case(rivet_dagster, tmp_path, monkeypatch, code, files, given):
    install_duckdb(monkeypatch, tmp_path)
    root = small_shop(tmp_path / "shop", files).root
    ended = rivet_dagster(root, *given)
    assert ended.code == code, ended
    assert "Traceback" not in ended.err


def test_a_run_that_is_interrupted_ends_with_130_and_publishes_nothing(rivet_dagster, tmp_path, monkeypatch):
    install_duckdb(monkeypatch, tmp_path)
    root = small_shop(tmp_path / "shop").root
    ended = rivet_dagster(root, "run", interrupted="open orders.parquet")
    assert ended.code == 130, ended
    assert "Traceback" not in ended.err
    assert not (root / "lake/history").exists()
