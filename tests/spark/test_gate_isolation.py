"""A gate reads the staged batch and never the published table, for every kind and phase of checks."""

from typing import Any

import pytest
from support.folders import ProjectFolder, sink, source
from support.iceberg import need_iceberg
from support.iceberg_folders import IcebergFolder
from support.tables import tree
from support.torture import TORTURE

from rivet_dagster.execution.writing import publish

CLEAN = "id,code,net\n1,a,1.50\n2,b,2.50\n3,c,0.00\n"
# Each of the checks below finds at least one violation here.
DIRTY = "id,code,net\n,a,1.50\n2,b,-1.00\n2,b,2.50\n4,,0.50\n5,x,9.00\n"
CHECKS: dict[str, dict[str, Any]] = {
    "not_null": {"type": "not_null", "columns": ["code"]},
    "unique": {"type": "unique", "columns": ["id"]},
    "custom": {"type": "custom", "sql": "SELECT code FROM {{ this }} WHERE code = 'x'"},
    "row_count": {"type": "row_count", "max": 3},
    "expression": {"type": "expression", "sql": "net >= 0"},
    "accepted_values": {"type": "accepted_values", "column": "code", "values": ["a", "b", "c"]},
}
ALONE = CHECKS | {
    "schema": {"type": "schema", "columns": {"id": "STRING"}},
    "freshness": {"type": "freshness", "column": "at", "max_age": "1d"},
    "relationship": {"type": "relationship", "column": "parent", "to": "out.id"},
}
SETS = [(list(CHECKS), phase) for phase in ("assertions", "audits")]
if TORTURE:
    SETS += [([kind], "assertions") for kind in CHECKS]


def gated(kinds: list[str], phase: str, severity: str = "error") -> dict[str, Any]:
    """Return a sink that copies rows, with these checks; their names distinguish checks of one kind."""
    checks = [{**CHECKS[kind], "name": kind, "severity": severity} for kind in kinds]
    return sink("out", "rows", quality={phase: checks})


def rows(folder: ProjectFolder) -> list[tuple]:
    return [(row["id"], row["code"], str(row["net"])) for row in folder.rows("out")]


def expected(text: str) -> list[tuple]:
    lines = [line.split(",") for line in text.splitlines()[1:]]
    found = [(int(id_) if id_ else None, code or None, net) for id_, code, net in lines]
    return sorted(found, key=lambda row: [(value is not None, str(value)) for value in row])


FILES = {"data/rows.csv": CLEAN, "sources/rows.yaml": source("rows", "id INT, code STRING, net DECIMAL(5, 2)")}


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(("kinds", "phase"), SETS, ids=lambda kinds: kinds if isinstance(kinds, str) else len(kinds))
def test_the_gate_reads_the_batch_and_not_the_published_rows(project, kinds, phase):
    folder = project({**FILES, "sinks/out.yaml": gated(kinds, phase)})
    assert_the_gate_reads_the_batch(folder, kinds, phase, lambda: tree(folder.root / "lake"))


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("phase", ["assertions", "audits"])
def test_readers_of_an_iceberg_table_do_not_see_the_branch_that_a_gate_reads(application, tmp_path, monkeypatch, phase):
    need_iceberg()
    folder = IcebergFolder(tmp_path / "project", {**FILES, "sinks/out.yaml": gated(list(CHECKS), phase)})
    during = []
    check = publish.check_staged

    def watched(*arguments):
        seen = rows(folder) if during else None  # the first time there is no table
        result = check(*arguments)
        during.append((seen, rows(folder) if during else None))
        return result

    monkeypatch.setattr(publish, "check_staged", watched)
    assert_the_gate_reads_the_batch(folder, list(CHECKS), phase, lambda: folder.state("out"))
    old = {"clean": expected(CLEAN), "dirty": expected(DIRTY)}
    assert during == [(None, None), *[(old[name], old[name]) for name in ("clean", "clean", "dirty")]]
    refs, properties, published, tables, heartbeats = folder.state("out")
    assert (list(refs), len(published), tables, heartbeats) == (["main"], 3, [("shop", "out")], [])
    assert [key for key in properties if key.startswith("rivet.")] == ["rivet.last-publication"]


@pytest.mark.nightly
def test_each_kind_alone_judges_the_branch_of_an_iceberg_table(application, sql_executions, tmp_path):
    need_iceberg()
    clean = "SELECT *, id AS parent, now() AS at FROM rows"
    folder = IcebergFolder(
        tmp_path / "project", {**FILES, "joints/all.sql": clean, "sinks/out.yaml": sink("out", "all")}
    )
    folder.run("out")
    before = folder.state("out")
    dirty = "SELECT *, id + 100 AS parent, TIMESTAMP'2020-01-31 12:00:00' AS at FROM rows"
    folder.write({"data/rows.csv": DIRTY, "joints/all.sql": dirty})
    queries = {}
    for kind, check in ALONE.items():
        folder.write({"sinks/out.yaml": sink("out", "all", assertions=[check])})
        sql_executions.since()
        result = folder.run("out")
        queries[kind] = sql_executions.since() - 1  # the write
        assert [(check.check.kind, check.passed, check.error) for check in result.checks] == [(kind, False, None)]
        assert (result.gate_failed, result.published, folder.state("out")) == (True, None, before)
    assert {kind for kind, count in queries.items() if not count} == {"row_count", "schema"}
    assert rows(folder) == expected(CLEAN)


def assert_the_gate_reads_the_batch(folder, kinds, phase, state):
    """Assert it by runs of which each batch has other faults than the published rows; ``state`` is that of storage."""
    assert all(check.passed for check in folder.run("out").checks)
    before, files = folder.bytes_of("out"), state()

    # Valid rows are published, the batch is invalid: it is discarded without a trace.
    folder.write({"data/rows.csv": DIRTY})
    result = folder.run("out")
    assert {check.check.name: check.passed for check in result.checks} == dict.fromkeys(kinds, False)
    assert {check.check.phase for check in result.checks} == {phase.removesuffix("s")}
    assert (result.gate_failed, result.published, result.rows) == (True, None, None)
    assert (folder.bytes_of("out"), state()) == (before, files)
    assert rows(folder) == expected(CLEAN)

    # Invalid rows are published by a sink that only warns, the batch is valid: it is published.
    folder.write({"sinks/out.yaml": gated(kinds, phase, "warn")})
    assert folder.run("out").published is not None
    assert rows(folder) == expected(DIRTY)
    folder.write({"data/rows.csv": CLEAN, "sinks/out.yaml": gated(kinds, phase)})
    result = folder.run("out")
    assert {check.check.name: check.violations for check in result.checks} == dict.fromkeys(kinds, 0)
    assert result.published.rows_before == 5
    assert rows(folder) == expected(CLEAN)
