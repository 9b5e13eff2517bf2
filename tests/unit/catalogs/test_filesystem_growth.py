"""What an operation on the filesystem catalog costs does not grow with its tables, its versions and their errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.counting import counting_calls
from support.duckdb_engine import DuckDBEngine
from support.environments import environment
from support.error_tables import publish as publish_with_errors
from support.tables import catalog, fill, publish
from support.torture import TORTURE

from rivet_dagster.execution.clean_up import sweep
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.write_plan import Append, ReplaceAll, Upsert, WritePlan

FEW, MANY = (1_000, 10_000) if TORTURE else (10, 60)
KEPT = 1_000_000
"""More versions than any of these tests makes."""


class Grown:
    """A catalog with the table ``orders``, as large as wanted, that retains so many ``versions``."""

    def __init__(self, root: Path, versions: int) -> None:
        self.root = root
        self.catalog = catalog(root, "lake", versions=versions)
        self.numbers = count()
        self.oldest = publish(self.catalog, [1], run="first").version

    def add_versions(self, number: int) -> None:
        """Add versions that were published before, with the same file: what is stored for each, without its history."""
        home = self.root / "lake/.rivet/orders"
        (data,) = (home / self.oldest).iterdir()
        manifest = home / f"{self.oldest}.json"
        fields = json.loads(manifest.read_text())
        names = [f"00000000-{n:08x}" for n in range(number)]
        with (home / "publishers.jsonl").open("w") as record:
            for name, base in zip(names, [None, *names], strict=False):
                older = fields | {"version": name, "base": base, "identity": f"history-{name}"}
                (home / name).mkdir()
                (home / name / data.name).hardlink_to(data)
                (home / f"{name}.json").write_text(json.dumps(older))
                record.write(json.dumps({key: older[key] for key in older if key not in ("columns", "landed")}) + "\n")
        manifest.write_text(json.dumps(fields | {"base": names[-1]}))
        assert len(self.catalog.versions("orders")) == number + 1
        self.oldest = names[0]

    def add_tables(self, number: int) -> None:
        """Publish other tables."""
        for n in range(number):
            publish(self.catalog, [n], f"other_{n}")

    def add_files(self, number: int) -> None:
        """Publish a version of so many files, which are links of one."""
        staged = fill(self.catalog.begin("orders"), [9])
        (one,) = Path(staged.target.paths[0]).glob("part-*")
        for n in range(number):
            one.with_name(f"part-{n}.parquet").hardlink_to(one)
        staged.commit("files")

    def operations(self, session: Any) -> dict[str, Callable[[], Any]]:
        """Return what is counted."""
        lake = self.catalog

        def name(text: str = "run") -> str:
            return f"{text}-{next(self.numbers)}"

        def written(plan: WritePlan) -> Any:
            transaction = lake.begin("orders", session)
            transaction.write(plan, session.query("SELECT CAST(7 AS BIGINT) AS id"))
            return transaction

        def in_environment(end: Callable[[str], Any]) -> None:
            made = name("pr")
            publish(environment(lake, made), [3])
            assert len(lake.built(made)) == 1
            end(made)

        def rollback() -> None:
            with lake.restage("orders", self.oldest) as transaction:
                transaction.commit(name())

        return {
            "append": lambda: written(Append()).commit(name()),
            "merge": lambda: written(Upsert(keys=("id",))).commit(name()),
            "replace": lambda: written(ReplaceAll()).commit(name()),
            "aborted": lambda: written(Append()).abort(),
            "withheld": lambda: written(Append()).withhold(name()),
            "staged": lambda: written(ReplaceAll()).stage(name()),
            "errors": lambda: publish_with_errors(lake, [4], ["bad"]),
            "current": lambda: lake.current("orders"),
            "published_by": lambda: lake.published_by("orders", "first"),
            "statistics": lambda: lake.statistics(lake.current("orders")),
            "rollback": rollback,
            "environment, merged": lambda: in_environment(lake.merge),
            "environment, dropped": lambda: in_environment(lake.drop),
            "versions": lambda: lake.versions("orders"),
            "sweep": lambda: sweep([lake]),
        }

    def costs(self, monkeypatch: pytest.MonkeyPatch, before: int = 1, *names: str) -> dict[str, int]:
        """Return how many calls each operation makes, those of ``names`` if given, after so many ``before``."""
        found: dict[str, int] = {}
        with DuckDBEngine(EngineSpec("duck", "duckdb")).session() as session:
            operations = self.operations(session)
            for name in names or operations:
                operation = operations[name]
                for _ in range(before):
                    operation()
                with counting_calls(monkeypatch) as counted:
                    operation()
                found[name] = counted["calls"]
        return found


SLACK = 5
"""The calls by which two runs of one operation may differ, as one more heartbeat."""
CALLS_OF_SPARE = 25
"""The calls of making and taking a spare folder, which a table of few files does not have."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "growing"),
    [
        ("tables", {"sweep": 5}),
        ("versions", {"versions": 4}),
        ("files", {"append": 1, "merge": 1}),
    ],
)
def test_the_calls_grow_only_with_what_the_operation_is_about(tmp_path, monkeypatch, what, growing):
    costs = []
    for size in (FEW, MANY):
        grown = Grown(tmp_path / str(size), KEPT)
        getattr(grown, f"add_{what}")(size)
        costs.append(grown.costs(monkeypatch))
    few, many = costs
    assert few["append"] > 50
    more = {name: many[name] - few[name] for name in few if many[name] > few[name] + SLACK}
    assert more.keys() == growing.keys()
    assert all(more[name] <= growing[name] * (MANY - FEW) + SLACK for name in more)


@pytest.mark.slow
def test_files_that_no_run_changes_cost_no_call_once_versions_expire(tmp_path, monkeypatch):
    costs = []
    for size in (FEW, MANY):
        grown = Grown(tmp_path / str(size), versions=2)
        grown.add_files(size)
        costs.append(grown.costs(monkeypatch, 3, "append", "merge", "current", "statistics", "published_by", "sweep"))
    few, many = costs
    assert {name: many[name] for name in few if many[name] > few[name] + SLACK + CALLS_OF_SPARE} == {}
