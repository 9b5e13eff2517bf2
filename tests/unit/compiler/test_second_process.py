"""The second process of a large project's first compilation: it saves time and never changes the plan."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rivet_dagster.compiler import second_process
from rivet_dagster.compiler.second_process import plain_share, read_share, share_of
from rivet_dagster.loading import compile_directory
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.schema import Field, Introspection
from rivet_dagster.project import load
from rivet_dagster.project.cache_file import read_cache
from rivet_dagster.sql.parsing import known_query

pytestmark = pytest.mark.slow

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
    monkeypatch.setattr(second_process, "LEAST_FILES", 1)
    monkeypatch.setattr(second_process, "_processors", lambda: 2)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that have been started."""
    processes = []
    start = subprocess.Popen

    def _started(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        processes.append(start(*args, **options))
        return processes[-1]

    monkeypatch.setattr(second_process.subprocess, "Popen", _started)
    return processes


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The values that other processes have returned."""
    values: dict[str, str] = {}
    read = second_process.values_in

    def _read(content: bytes) -> dict[str, str]:
        values.update(read(content))
        return read(content)

    monkeypatch.setattr(second_process, "values_in", _read)
    return values


def _share(monkeypatch: pytest.MonkeyPatch, part: float) -> None:
    """Leave a part of the files and of the queries to other processes."""
    monkeypatch.setattr(second_process, "FILES", part)
    monkeypatch.setattr(second_process, "QUERIES", part)


def _project(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


def _alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, str]]:
    """The plan and the cache of a first compilation in one process."""
    shutil.rmtree(root / ".rivet", ignore_errors=True)
    with monkeypatch.context() as patched:
        patched.setattr(second_process, "LEAST_FILES", sys.maxsize)
        plan = compile_directory(root).to_json()
    known = dict(read_cache(root).known)
    shutil.rmtree(root / ".rivet")
    return plan, known


@pytest.mark.parametrize("part", [1.0, 0.45, 0.0])
def test_with_and_without_a_second_process_the_plan_and_the_cache_are_the_same(
    tmp_path: Path,
    part: float,
    started: list[Any],
    received: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = _project(tmp_path, FILES)
    for file in root.rglob("*.*"):
        os.utime(file, (1, 1))
    alone, known = _alone(root, monkeypatch)
    read_here: list[str] = []
    read_query = known_query.read_query
    monkeypatch.setattr(known_query, "read_query", lambda sql: read_here.append(sql) or read_query(sql))
    _share(monkeypatch, part)

    assert compile_directory(root).to_json() == alone
    assert json.loads(alone)["errors"] == []
    assert received.items() <= known.items()
    kinds = {key.split()[0] for key in received}
    if part == 1.0:
        assert kinds == {"draft", "query", "columns"}
        assert sum(key.startswith("draft ") for key in received) == sum(key.startswith("draft ") for key in known)
        assert FILES["joints/a2.sql"] not in read_here
    assert (kinds == set()) is (part == 0.0)
    assert read_cache(root).known == known

    read_here.clear()
    assert compile_directory(root).to_json() == alone
    assert read_here == []
    assert len(started) == 1  # there is a cache


@pytest.mark.parametrize("part", [1.0, 0.5, 0.0])
def test_errors_and_their_order_are_those_of_one_process(
    tmp_path: Path, part: float, received: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _project(tmp_path, {**FILES, **WRONG})
    alone, _ = _alone(root, monkeypatch)
    _share(monkeypatch, part)
    assert compile_directory(root).to_json() == alone
    assert len(json.loads(alone)["errors"]) > 1
    assert bool(received) is (part > 0)


WORK = "from rivet_dagster.compiler.second_process import main; main()"


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("answers", [0, 1])
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_is_killed_or_stopped_only_costs_time(
    tmp_path: Path, sent: signal.Signals, answers: int, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _project(tmp_path, FILES)
    alone, known = _alone(root, monkeypatch)
    code = f"""
import os, sys
from rivet_dagster.compiler import second_process
part, left = second_process.part, [None] * {answers}
def cut_off(values):
    if left:
        left.pop()
        return part(values)
    sys.stdout.buffer.write(b"000000000099[")
    sys.stdout.flush()
    os.kill(os.getpid(), {int(sent)})
second_process.part = cut_off
second_process.main()
"""
    monkeypatch.setattr(second_process, "_COMMAND", code)
    monkeypatch.setattr(second_process, "_PATIENCE", 2.0)
    _share(monkeypatch, 1.0)
    assert compile_directory(root).to_json() == alone
    assert read_cache(root).known == known
    assert [each.returncode for each in started] == [-signal.SIGKILL]  # none is left behind


OTHER_VERSION = "from rivet_dagster.project import cache_file; cache_file._maker = lambda: 'another'\n" + WORK
CUT_OFF = (
    "from rivet_dagster.compiler import second_process\n"
    "part = second_process.part; second_process.part = lambda v: part(v)[:-1]\nsecond_process.main()"
)
NO_LENGTH = "print('no length of a line', flush=True)"


@pytest.mark.parametrize("code", [OTHER_VERSION, CUT_OFF, NO_LENGTH, "print('0')", "1 / 0"])
def test_an_answer_that_is_wrong_or_of_another_version_is_not_used(
    tmp_path: Path, code: str, received: dict[str, str], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _project(tmp_path, FILES)
    alone, known = _alone(root, monkeypatch)
    monkeypatch.setattr(second_process, "_COMMAND", code)
    _share(monkeypatch, 1.0)
    assert compile_directory(root).to_json() == alone
    assert received == {}
    assert read_cache(root).known == known
    assert len(started) == 1


@pytest.mark.parametrize(("name", "value"), [("LEAST_FILES", 3_000), ("_processors", lambda: 1)])
def test_a_small_project_or_one_processor_starts_no_process(
    tmp_path: Path, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_process, name, value)
    monkeypatch.setattr(second_process.subprocess, "Popen", None)
    assert compile_directory(_project(tmp_path, FILES)).success


def test_where_no_process_can_be_started_the_plan_is_the_same(
    tmp_path: Path, received: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _project(tmp_path, FILES)
    alone, _ = _alone(root, monkeypatch)
    monkeypatch.setattr(sys, "executable", str(root / "no_python"))
    before = len(os.listdir("/dev/fd"))
    assert compile_directory(root).to_json() == alone
    assert received == {}
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_leaves_no_process_and_no_cache(
    tmp_path: Path, error: type[BaseException], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def _interrupted(*_: Any) -> Any:
        raise error

    root = _project(tmp_path, FILES)
    monkeypatch.setattr(second_process, "read_drafts", _interrupted)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(error if error is KeyboardInterrupt else load.RivetError):
        compile_directory(root)
    assert [each.returncode for each in started] == [-signal.SIGKILL]
    assert not (root / ".rivet").exists()
    assert len(os.listdir("/dev/fd")) == before


def test_the_process_ends_with_the_one_that_has_started_it(tmp_path: Path) -> None:
    code = f"""
import sys, time
from rivet_dagster.compiler import second_process
from rivet_dagster.loading import compile_directory
second_process.LEAST_FILES, second_process._processors = 1, lambda: 2
start = second_process.subprocess.Popen
def started(*args, **options):
    print((popen := start(*args, **options)).pid, flush=True)
    return popen
second_process.subprocess.Popen = started
second_process.read_drafts = lambda *_: time.sleep(60)
compile_directory({str(_project(tmp_path, FILES))!r})
"""
    with subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        pid = int(caller.stdout.readline())
        assert _runs(pid)
        caller.kill()
    until = time.monotonic() + 20
    while _runs(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_process_imports_neither_dagster_nor_pyspark() -> None:
    code = (
        "import sys, rivet_dagster.compiler.second_process; print({'dagster', 'pyspark', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_share_has_each_joint_after_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [Joint(name=f"s{n}", type="source", catalog="raw", table="t", limit=n or None) for n in range(3)]
    sources[0] = Joint(name="s0", type="source", catalog="raw", table="t", columns=["id", {"x": "y + 1"}])
    queries = [
        Joint(name=f"q{n}", sql=f"SELECT * FROM {'Q' if n else 's'}{max(0, n - 1)}", type="sql") for n in range(9)
    ]
    template = Joint(name="p", type="sql", sql="SELECT '{{ 1 }}' FROM q0")
    after = Joint(name="a", type="sql", sql="SELECT 1 FROM p")
    circle = [Joint(name=f"c{n}", type="sql", sql=f"SELECT * FROM c{1 - n}") for n in range(2)]
    sink = Joint(name="w", type="sink", upstream=["q0"], catalog="raw", table="w")
    joints = (*reversed(queries), template, after, *circle, sink, *sources)
    introspection = Introspection({"s0": (Field("id", "int"), Field("y", None)), "other": ()})
    monkeypatch.setattr(second_process, "QUERIES", 1.0)
    share = share_of(joints)
    names = [joint.name for joint in share]
    assert sorted(names) == [*(f"q{n}" for n in range(9)), "s0", "s1", "s2"]
    assert [name for name in names if name not in ("s1", "s2")] == ["s0", *(f"q{n}" for n in range(9))]
    monkeypatch.setattr(second_process, "QUERIES", 0.5)
    assert [joint for joint in share_of(joints) if joint.type == "sql"] == queries[:6]

    again, introspected = read_share(json.loads(json.dumps(plain_share(share, introspection))))
    assert introspected.tables == {"s0": introspection.tables["s0"]}
    keys = ("name", "sql", "columns", "limit", "upstream")
    assert [[getattr(joint, key) for key in keys] for joint in again] == [
        [getattr(joint, key) for key in keys] for joint in share
    ]
