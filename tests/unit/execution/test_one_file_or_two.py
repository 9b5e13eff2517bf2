"""A random project gives the same tables and verdicts, run for run, with one file a table as with a joint and a sink.

On an engine without a JVM. Of two files, what other joints read is the joint, which its checks force to be stored; so
only joints that replace their tables have readers here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st
from support.folders import Files, ProjectFolder
from support.plugins import install
from support.torture import examples

from rivet_dagster.errors import RivetError

CATALOGS = {"lake": {"type": "filesystem", "path": "lake"}, "raw": {"type": "filesystem", "path": "data"}}
ENGINE = {"name": "duck", "type": "duck", "catalogs": ["lake", "raw"]}
BASE: Files = {
    "profiles.yaml": {"default": {"catalogs": CATALOGS, "engines": [ENGINE]}},
    "sources/raw.yaml": {"type": "source", "catalog": "raw", "table": "raw.parquet"},
    "joints/plain.sql": "SELECT id, n + 1 AS n FROM raw",
}
QUERIES = (
    "SELECT id, n FROM {x} WHERE n >= 2",
    "SELECT id % 2 AS id, CAST(max(n) AS BIGINT) AS n FROM {x} GROUP BY id % 2",
    "SELECT a.id, a.n + b.n AS n FROM {x} a JOIN {y} b ON a.id = b.id",
)
STRATEGIES: tuple[Any, ...] = (
    "append",
    {"mode": "merge", "key_columns": ["id"]},
    {"mode": "merge", "key_columns": ["id"], "order_by": ["n"], "on_empty": "skip"},
    {"mode": "delete_insert", "key_columns": ["id"]},
)
CHECKS = (
    {"type": "row_count", "min": 1},
    {"type": "expression", "sql": "n < 6", "name": "small"},
    {"type": "unique", "columns": ["id"], "severity": "warn"},
    {"type": "not_null", "columns": ["n"]},
)


@dataclass(frozen=True)
class Mart:
    """A published joint with its checks; only one that replaces its table has readers."""

    name: str
    sql: str
    strategy: Any
    assertions: tuple[dict[str, Any], ...]
    audits: tuple[dict[str, Any], ...]

    @property
    def quality(self) -> dict[str, Any]:
        return {"quality": {"assertions": list(self.assertions), "audits": list(self.audits)}}

    @property
    def one_file(self) -> Files:
        own = {"catalog": "lake", "write_strategy": self.strategy, **self.quality}
        return {f"joints/{self.name}.yaml": {"type": "sql", "sql": self.sql, **own}}

    @property
    def two_files(self) -> Files:
        is_read = self.strategy == "replace"
        sink = {"type": "sink", "upstream": [self.name], "catalog": "lake", "table": self.name}
        return {
            f"joints/{self.name}.yaml": {"type": "sql", "sql": self.sql, **(self.quality if is_read else {})},
            f"sinks/{self.name}_table.yaml": {
                **sink, "write_strategy": self.strategy, **({} if is_read else self.quality),
            },
        }  # fmt: skip


@st.composite
def marts(draw: st.DrawFn) -> list[Mart]:
    """Generate two to four marts, each of which reads the source, a plain joint or an earlier mart."""
    found: list[Mart] = []
    readable = ["raw", "plain"]
    for number in range(draw(st.integers(2, 4))):
        text = draw(st.sampled_from(QUERIES)).format(
            x=draw(st.sampled_from(readable[-3:])), y=draw(st.sampled_from(readable))
        )
        strategy = draw(st.sampled_from(["replace", "replace", *STRATEGIES]))
        checks = [tuple(draw(st.lists(st.sampled_from(CHECKS), max_size=1))) for _ in range(2)]
        found.append(Mart(f"m{number}", text, strategy, *checks))
        if strategy == "replace":
            readable.append(f"m{number}")
    return found


EXAMPLES = examples(3, 30)
_ROWS = st.lists(st.tuples(st.integers(1, 4), st.none() | st.integers(0, 4)), max_size=5)


def outcomes(folder: ProjectFolder) -> Iterator[tuple[str, object]]:
    """Run the groups in order, but for those that read what has failed; yield what came of each."""
    plan = folder.assembly
    failed: set[str] = set()
    for name in plan.execution_order:
        group = plan.group(name)
        if group.target is None:
            continue
        if failed & set(group.before):
            failed.add(name)
            yield name, "skipped"
            continue
        try:
            result = folder.run(name)
        except RivetError as error:
            failed.add(name)
            yield name, error.code
            continue
        if any(check.blocks for check in result.checks):
            failed.add(name)
        rows = result.rows
        yield (
            name,
            (
                sorted((c.check.name, c.check.phase, c.passed, c.violations) for c in result.checks),
                None if rows is None else (rows.inserted, rows.updated, rows.deleted, rows.total),
            ),
        )


def in_one(found: dict[str, Any]) -> dict[str, Any]:
    """Return the outcomes of two files as those of one: of a failure the joint's, else the sink's and all verdicts."""
    together = {}
    for name, outcome in found.items():
        copy = found.get(f"{name}_table")
        if copy is not None and isinstance(copy, tuple) and isinstance(outcome, tuple):
            outcome = (outcome[0] + copy[0], copy[1])
        if not name.endswith("_table"):
            together[name] = outcome
        elif name.removesuffix("_table") not in found:
            together[name.removesuffix("_table")] = outcome
    return together


@pytest.fixture
def engine(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.duckdb_engine:DuckDBEngine"})


@pytest.mark.slow
def test_the_same_tables_and_verdicts(engine, tmp_path_factory, request):
    chosen = request.config.getoption("--examples")

    @settings(
        max_examples=chosen or EXAMPLES,
        deadline=None,
        derandomize=chosen is None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(marts(), st.lists(_ROWS, min_size=2, max_size=2))
    def compare(found, runs):
        compared(tmp_path_factory, found, runs)

    compare()


def compared(tmp_path_factory, found, runs):
    root = tmp_path_factory.mktemp("shapes")
    one = ProjectFolder(root / "one", {**BASE, **{k: v for mart in found for k, v in mart.one_file.items()}})
    two = ProjectFolder(root / "two", {**BASE, **{k: v for mart in found for k, v in mart.two_files.items()}})
    for mart in found:
        group = two.assembly.joint(mart.name).group
        assert one.assembly.group(mart.name).inputs == two.assembly.group(group).inputs
        for folder, name in ((one, mart.name), (two, f"{mart.name}_table")):
            assert folder.assembly.target(name).declared
        assert one.assembly.target(mart.name).write == two.assembly.target(f"{mart.name}_table").write
    for rows in runs:
        values = {"id": [row[0] for row in rows], "n": [row[1] for row in rows]}
        table = pa.table(values, pa.schema({"id": "int64", "n": "int64"}))
        for folder in (one, two):
            pq.write_table(table, folder.root / "data/raw.parquet")
        made = dict(outcomes(one))
        note(str(made))
        for outcome in made.values():
            event(outcome if isinstance(outcome, str) else "published" if outcome[1] else "gated or empty")
        expected = in_one(dict(outcomes(two)))
        assert {name: made[name] for name in expected if name in made} == expected
        for mart in found:
            tables = [(folder.root / "lake" / mart.name).exists() for folder in (one, two)]
            assert tables[0] == tables[1]
            if tables[0]:
                assert one.rows(mart.name) == two.rows(mart.name)
