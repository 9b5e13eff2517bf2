"""The helper process of a large project's first compilation: it saves time and never changes the plan."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from rivet_dagster.compiler.helper import process
from rivet_dagster.compiler.helper.share import read_request, request, share_of
from rivet_dagster.loading import compile_directory
from rivet_dagster.model.introspection import Introspection
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.schema import Field
from rivet_dagster.project.cache_file import read_cache
from rivet_dagster.sql import known_query

FILES = {
    "rivet.yaml": "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\n",
    "profiles.yaml": (
        "default:\n  catalogs:\n    raw: {type: filesystem, path: data}\n"
        "  engines:\n    - {name: spark, type: pyspark, catalogs: [raw]}\n"
    ),
    "sources/orders.yaml": (
        "type: source\ncatalog: raw\ntable: orders\ncolumns: [id, {net: amount * 2}]\nfilter: id > 0\n"
        "options: {schema: 'id BIGINT, amount DOUBLE', mergeSchema: true}\n"
    ),
    "sources/events.yaml": "type: source\ncatalog: raw\ntable: events\n",
    "joints/a1.sql": "-- rivet:assert: not_null(id)\nSELECT *, net + 1 AS more -- as b1 does\nFROM orders;\n",
    "joints/a2.sql": "SELECT o.id, e.* FROM orders o JOIN events e ON TRUE",
    "joints/a3.sql": "SELECT * FROM events -- unlike a4\n",
    "joints/a4.sql": "SELECT id, 'a3' AS origin FROM A1 WHERE id IN (SELECT id FROM A3)",
    "joints/b1.yaml": "type: sql\nsql: |\n  WITH p AS (SELECT * FROM a1)\n  SELECT id, more FROM p LIMIT 3\n",
    "joints/b2.sql": "SELECT id FROM a1 {% if is_incremental() %}WHERE id > {{ watermark_value }}{% endif %}",
    "joints/b3.sql": "-- rivet:upstream: [b2, a4]\nSELECT id FROM b2 UNION ALL SELECT id FROM a4",
    "joints/a5.yaml": (
        "type: sql\nsql: SELECT id, more FROM a1\ncatalog: raw\ntable: prices\n"
        "write_strategy: {mode: scd2, key_columns: [id]}\n"
    ),
    "joints/a6.sql": "SELECT * FROM a5",
    "joints/scored.py": "def transform(b1): ...\n",
    "joints/c1.sql": "SELECT * FROM scored",
    "joints/c2.sql": "SELECT rand() AS dice, max(more) AS most FROM b1",
    "sinks/b3_out.yaml": (
        "type: sink\nupstream: [b3]\ncatalog: raw\ntable: b3_out\n"
        "write_strategy: {mode: incremental_append, watermark_column: id}\n"
    ),
}
WRONG = {
    "joints/a3.sql": "SELECT * FROM evnts",
    "joints/a4.sql": "SELECT idd, FROM a1 WHERE",
    "joints/b1.yaml": "type: sql\nsql: SELECT nett FROM a1\n",
    "joints/c2.sql": "SELECT most FROM c3",
    "joints/c3.sql": "SELECT 1 AS most FROM c2",
}


@pytest.fixture(autouse=True)
def low_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LEAST_QUERIES", 1)
    monkeypatch.setattr(process, "_processors", lambda: 2)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What helpers have returned."""
    all_values = []
    receive = process._received

    def _received(helper: subprocess.Popen[bytes], answer: IO[bytes]) -> dict[str, str]:
        all_values.append(receive(helper, answer))
        return all_values[-1]

    monkeypatch.setattr(process, "_received", _received)
    return all_values


def _project(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


def _alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, str]]:
    """The plan and the cache of a first compilation in one process."""
    shutil.rmtree(root / ".rivet", ignore_errors=True)
    with monkeypatch.context() as patched:
        patched.setattr(process, "LEAST_QUERIES", sys.maxsize)
        plan = compile_directory(root).to_json()
    known = dict(read_cache(root).known)
    shutil.rmtree(root / ".rivet")
    return plan, known


def test_with_and_without_a_helper_the_plan_and_the_cache_are_the_same(
    tmp_path: Path, received: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _project(tmp_path, FILES)
    alone, known = _alone(root, monkeypatch)
    read_here: list[str] = []
    read_query = known_query.read_query
    monkeypatch.setattr(known_query, "read_query", lambda sql: read_here.append(sql) or read_query(sql))

    assert compile_directory(root).to_json() == alone
    assert json.loads(alone)["errors"] == []
    assert {key.split()[0] for key in received[0]} == {"query", "columns"}
    assert received[0].items() <= known.items()
    assert len(set(read_here)) == sum(key.startswith("query ") for key in known.keys() - received[0].keys())
    assert read_cache(root).known == known

    assert compile_directory(root).to_json() == alone
    assert len(received) == 1  # there is a cache


def test_errors_and_their_order_are_those_of_one_process(
    tmp_path: Path, received: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _project(tmp_path, {**FILES, **WRONG})
    alone, _ = _alone(root, monkeypatch)
    assert compile_directory(root).to_json() == alone
    assert len(json.loads(alone)["errors"]) > 1
    assert len(received) == 1


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_helper_that_is_killed_or_stopped_only_costs_time(
    tmp_path: Path, sent: signal.Signals, received: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _project(tmp_path, FILES)
    alone, known = _alone(root, monkeypatch)
    start, started = process._started, []

    def _started(*files: IO[bytes]) -> Any:
        started.append(start(*files))
        os.kill(started[0].pid, sent)
        return started[0]

    monkeypatch.setattr(process, "_started", _started)
    monkeypatch.setattr(process, "_PATIENCE", 0.2)
    assert compile_directory(root).to_json() == alone
    assert received == [{}]
    assert read_cache(root).known == known
    assert started[0].returncode == -signal.SIGKILL  # none is left behind


def test_an_answer_that_is_cut_off_or_of_another_version_is_not_used(
    tmp_path: Path, received: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _project(tmp_path, FILES)
    alone, _ = _alone(root, monkeypatch)
    command = "from rivet_dagster.project.cache_file import part; print(part({'a': '1'}).decode()[:-1], end='')"
    monkeypatch.setattr(process, "_COMMAND", command)
    assert compile_directory(root).to_json() == alone
    shutil.rmtree(root / ".rivet")
    monkeypatch.setattr(process, "_COMMAND", "print('rivet_dagster 0.0.1'); raise SystemExit(1)")
    assert compile_directory(root).to_json() == alone
    assert received == [{}, {}]


@pytest.mark.parametrize(("name", "value"), [("LEAST_QUERIES", 3_000), ("_processors", lambda: 1)])
def test_a_small_project_or_one_processor_starts_no_process(
    tmp_path: Path, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, name, value)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert compile_directory(_project(tmp_path, FILES)).success


def test_where_no_process_can_be_started_the_plan_is_the_same(
    tmp_path: Path, received: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _project(tmp_path, FILES)
    alone, _ = _alone(root, monkeypatch)
    monkeypatch.setattr(sys, "executable", str(root / "no_python"))
    assert compile_directory(root).to_json() == alone
    assert received == []


def test_the_helper_imports_neither_dagster_nor_pyspark() -> None:
    code = "import sys, rivet_dagster.compiler.helper.work; print({'dagster', 'pyspark', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_share_holds_all_that_its_joints_read() -> None:
    sources = [Joint(name=f"s{n}", type="source", catalog="raw", table="t", limit=n or None) for n in range(3)]
    sources[0] = Joint(name="s0", type="source", catalog="raw", table="t", columns=["id", {"x": "y + 1"}])
    queries = [
        Joint(name=f"q{n}", sql=f"SELECT * FROM {'Q' if n else 's'}{max(0, n - 1)}", type="sql") for n in range(9)
    ]
    template = Joint(name="p", type="sql", sql="SELECT '{{ 1 }}' FROM q0")
    after = Joint(name="a", type="sql", sql="SELECT 1 FROM p")
    circle = [Joint(name=f"c{n}", type="sql", sql=f"SELECT * FROM c{1 - n}") for n in range(2)]
    share = share_of([*reversed(queries), template, after, *circle, *sources])
    names = [joint.name for joint in share]
    assert names == [name for name in names if name in ("s0", "s1", "s2", *(f"q{n}" for n in range(5)))]
    assert {"s0", "q0", "q1", "q2", "q3"} <= {*names}

    introspection = Introspection({"s0": (Field("id", "int"), Field("y", None)), "other": ()})
    joints, tables = read_request(json.loads(json.dumps(request(share, introspection))))
    assert tables.tables == {"s0": introspection.tables["s0"]}
    assert [(j.name, j.sql, j.columns, j.limit) for j in joints] == [(j.name, j.sql, j.columns, j.limit) for j in share]
