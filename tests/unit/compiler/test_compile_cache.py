"""The cache of a compilation: it saves time and does not change results."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.torture import examples

from rivet_dagster import loading
from rivet_dagster.cache import CompileCache
from rivet_dagster.loading import compile_directory
from rivet_dagster.project import cache_file, known_files
from rivet_dagster.project.cache_file import FILE, read_cache
from rivet_dagster.project.load import load_project, read_project
from rivet_dagster.project.text_file import read_text
from rivet_dagster.sql.parsing import known_query

FILES = {
    "rivet.yaml": "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\nquality: quality\n",
    "profiles.yaml": (
        "default:\n  catalogs:\n    raw: {type: filesystem, path: data}\n"
        "  engines:\n    - {name: spark, type: pyspark, catalogs: [raw]}\n"
    ),
    "sources/orders.yaml": (
        "type: source\ncatalog: raw\ntable: orders\ncolumns: [id, {net: amount * 2}]\nfilter: id > 0\n"
        "options: {schema: 'id BIGINT, amount DOUBLE', rate: .inf}\ntags: {level: raw}\n"
        "quality:\n  audits:\n    - {type: accepted_values, column: id, values: [1, 2]}\n"
    ),
    "joints/paid.sql": (
        "-- rivet:assert: not_null(id)\n-- rivet:tags: [daily]\n\nSELECT *, net + 1 AS more\nFROM orders;\n"
    ),
    "joints/marts/best.yaml": "type: sql\nsql: |\n  WITH p AS (SELECT * FROM paid)\n  SELECT id FROM p LIMIT 3\n",
    "joints/scored.py": "# rivet:description: scores\ndef transform(paid): ...\n",
    "quality/paid/no_loss.sql": "-- @severity: warn\nSELECT * FROM paid WHERE net < 0\n",
    "quality/best.yaml": "assertions:\n  - {type: row_count, max: 3}\n",
    "joints/paid.quality.yaml": "audits:\n  - {type: unique, columns: [id], severity: warn, timeout: 30s}\n",
    "sinks/best_out.yaml": "type: sink\nupstream: [best]\ncatalog: raw\ntable: best_out\n",
}
QUERIES = (
    "SELECT * FROM orders",
    "SELECT id, net AS more FROM orders WHERE id > 1 -- some",
    "SELECT rand() AS id FROM orders",
    "SELECT id FROM ordrs",
    "SELECT id, FROM WHERE",
    "SELECT 1; SELECT 2",
    "WITH a AS (SELECT id FROM orders) SELECT * FROM a UNION ALL SELECT id FROM a",
    "",
)
QUALITY = (
    "assertions:\n  - {type: not_null, columns: [id]}\n",
    "audits:\n  - {type: row_count, min: 1, samples: 0, tags: [a]}\n",
    "audits:\n  - {type: expression, sql: id > 0}\n  - {type: expression, sql: id >}\n",
    "audits:\n  - {type: row_cuont}\n",
    "",
)
PYTHON = (
    "def transform(paid): return paid\n",
    "# rivet:upstream: [paid, orders]\ndef transform(orders, paid):\n    'both'\n",
    "def transform(paid): yield 1\n",
    "def transfrom(paid): ...\n",
)
CHECKS = ("SELECT * FROM paid", "SELECT * FROM best", "SELECT FROM WHERE", "SELECT id FROM {{ this }}")
CHANGES = (
    *(("quality/paid/no_loss.sql", text) for text in CHECKS),
    *((f"joints/{name}.sql", query) for name in ("paid", "other") for query in QUERIES),
    *(("quality/best.yaml", text) for text in QUALITY),
    *(("joints/scored.py", text) for text in PYTHON),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return written(tmp_path / "project")


def written(root: Path) -> Path:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


def json_of(root: Path) -> str:
    return compile_directory(root, environ={}).to_json()


def without_cache(root: Path) -> str:
    shutil.rmtree(root / ".rivet", ignore_errors=True)
    return json_of(root)


def test_a_second_compilation_gives_the_same_bytes(project: Path) -> None:
    cold = json_of(project)
    assert json.loads(cold)["success"]
    assert json_of(project) == cold


def test_a_cached_query_needs_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CompileCache()
    first = known_query.know_query(QUERIES[1], cache)
    monkeypatch.setattr(known_query, "read_query", lambda sql: pytest.fail("parsed again"))
    assert known_query.know_query(QUERIES[1], CompileCache(cache.used)) == first


def test_cached_drafts_equal_the_original_ones(project: Path) -> None:
    cache = CompileCache()
    first = load_project(project, environ={}, cache=cache)
    again = CompileCache(cache.used)
    second = load_project(project, environ={}, cache=again)
    assert first == second
    assert [joint.origin for joint in first.joints] == [joint.origin for joint in second.joints]
    assert again.used.keys() == cache.used.keys()


@pytest.mark.slow
@settings(max_examples=examples(8, 40))
@given(changes=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=4), appends=st.booleans())
def test_after_any_change_the_plan_equals_that_of_a_compilation_without_cache(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str]], appends: bool
) -> None:
    project = written(tmp_path_factory.mktemp("changing"))
    with pytest.MonkeyPatch.context() as patched:
        if appends:
            always_append(patched)
        for file, text in changes:
            json_of(project)
            (project / file).write_text(text, "utf-8")
            warm = json_of(project)
            assert warm == json_of(project)
            if not appends:
                assert warm == without_cache(project)
        assert json_of(project) == without_cache(project)


def always_append(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_file, "_APPENDED_FROM", 1)
    monkeypatch.setattr(cache_file, "_MOST_UNUSED", 10.0)


def trust_all_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have states of files trusted that have just been written, for files that are not written again at once."""
    monkeypatch.setattr(known_files, "_SETTLED_NS", -(10**12))


def test_values_are_appended_and_a_damaged_part_does_not_hide_the_others(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_of(project)
    before = (project / FILE).read_bytes()
    always_append(monkeypatch)
    for limit in (4, 5, 6):
        (project / "joints/marts/best.yaml").write_text(f"type: sql\nsql: SELECT id FROM paid LIMIT {limit}\n", "utf-8")
        json_of(project)
    content = (project / FILE).read_bytes()
    assert content.startswith(before)
    whole = read_cache(project).known
    (project / FILE).write_bytes(content.replace(b"LIMIT 5", b"LIMIT 7", 1))
    known = read_cache(project).known
    assert known.items() < whole.items()
    assert [any(f"LIMIT {n}" in value for value in known.values()) for n in (3, 4, 5, 6, 7)] == [
        *(True, True, False, True, False)
    ]
    assert json_of(project) == without_cache(project)


def test_many_values_are_written_in_parts_of_which_a_damaged_one_alone_is_lost(tmp_path: Path) -> None:
    cache = CompileCache()
    for number in range(4_500):
        cache.put("number", str(number), number)
    cache_file.write_cache(tmp_path, cache)
    assert read_cache(tmp_path).known == cache.used

    content = (tmp_path / FILE).read_bytes()
    middle = content.index(b"\n2100\n")
    (tmp_path / FILE).write_bytes(content[: middle + 1] + b"9" + content[middle + 2 :])
    left = [read_cache(tmp_path).get("number", str(number)) for number in range(4_500)]
    assert left == [*range(2_000), *[None] * 2_000, *range(4_000, 4_500)]


def test_a_file_in_the_same_state_is_not_read_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust_all_states(monkeypatch)
    first = json_of(project)
    monkeypatch.setattr(known_files, "read_text", lambda path: pytest.fail(f"read {path}"))
    assert json_of(project) == first


def test_a_file_of_the_same_size_and_times_that_was_replaced_is_read_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust_all_states(monkeypatch)
    json_of(project)
    file = project / "joints/paid.sql"
    status, text = file.stat(), file.read_text("utf-8")
    other = project / "paid"
    other.write_text(text.replace("net + 1", "net + 7"), "utf-8")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(other, file)
    assert (file.stat().st_mtime_ns, file.stat().st_size) == (status.st_mtime_ns, status.st_size)
    changed = json_of(project)
    assert "net + 7" in changed
    assert changed == without_cache(project)


def test_the_state_of_a_file_that_has_just_been_written_is_not_trusted(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = json_of(project)
    read = []
    monkeypatch.setattr(known_files, "read_text", lambda path: read.append(path) or read_text(path))
    assert json_of(project) == first
    assert any(path.endswith("paid.sql") for path in read)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\x00", b"other 1\n{}", b"PK\x03\x04"])
def test_a_damaged_file_is_ignored_and_replaced(project: Path, damage: bytes) -> None:
    cold = json_of(project)
    good = (project / FILE).read_bytes()
    (project / FILE).write_bytes(damage)
    assert json_of(project) == cold
    assert (project / FILE).read_bytes() == good


def test_a_truncated_or_corrupted_file_is_ignored(project: Path) -> None:
    json_of(project)
    good = (project / FILE).read_bytes()
    for bad in (good[:-5], good.replace(b"orders", b"0rders")):
        (project / FILE).write_bytes(bad)
        assert read_cache(project).known == {}


def test_a_cache_of_another_version_is_ignored(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    json_of(project)
    assert read_cache(project).known
    monkeypatch.setattr(cache_file, "_maker", lambda: "another")
    assert not read_cache(project).known


def test_unused_entries_are_dropped_from_the_cache(project: Path) -> None:
    json_of(project)
    before = len(read_cache(project).known)
    (project / "joints/scored.py").unlink()
    json_of(project)
    assert len(read_cache(project).known) == before - 2  # the declaration and its function
    assert os.listdir((project / FILE).parent) == ["compile.json"]


def test_an_unchanged_project_writes_no_cache(project: Path) -> None:
    json_of(project)
    os.utime(project / FILE, (1, 1))
    json_of(project)
    assert (project / FILE).stat().st_mtime == 1


def test_the_next_write_removes_the_unfinished_file_of_a_killed_process(project: Path) -> None:
    old, new = ((project / FILE).parent / f"compile-{age}" for age in ("old", "new"))
    old.parent.mkdir(parents=True)
    for left in (old, new):
        left.write_bytes(b"half")
    os.utime(old, (1, 1))
    json_of(project)
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.slow
def test_concurrent_processes_leave_a_valid_cache(project: Path) -> None:
    code = "import sys; from rivet_dagster.loading import compile_directory; compile_directory(sys.argv[1], environ={})"
    running = [subprocess.Popen([sys.executable, "-c", code, str(project)]) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert read_cache(project).known
    assert os.listdir((project / FILE).parent) == ["compile.json"]


def test_a_cache_deleted_while_compiling_changes_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = json_of(project)

    def load_and_delete(*args: Any) -> Any:
        shutil.rmtree(project / ".rivet")
        return read_project(*args)

    monkeypatch.setattr(loading, "read_project", load_and_delete)
    assert json_of(project) == cold


def test_the_garbage_collector_is_enabled_again(project: Path) -> None:
    json_of(project)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_project_whose_cache_cannot_be_written_compiles(project: Path) -> None:
    cold = json_of(project)
    shutil.rmtree(project / ".rivet")
    (project / ".rivet").write_text("a file where a folder should be", "utf-8")
    assert json_of(project) == cold


def test_errors_are_never_cached(project: Path) -> None:
    (project / "joints/paid.sql").write_text("-- rivet:tgs: [a]\nSELECT id, FROM WHERE", "utf-8")
    json_of(project)
    wrong = read_cache(project).known
    assert not any("tgs" in value for value in wrong.values())


def test_a_cache_of_nothing_can_be_read(tmp_path: Path) -> None:
    known = CompileCache({"length abc": "3"})
    cache_file.write_cache(tmp_path, known)
    assert (tmp_path / FILE).exists()
    assert read_cache(tmp_path).known == {}
