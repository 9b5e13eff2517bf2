"""Runs of subsets: by Dagster's selection syntax, of checks only, and after a failure."""

import os

import dagster as dg
import pyarrow as pa
import pytest
from support.folders import GOES_ON, WORKSPACE, in_order, sink, source
from support.torture import some

from rivet_dagster import load_definitions

pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")  # from Dagster's own parser of selections

ROWS = "id,side,qty\n1,l,10\n2,l,20\n3,l,30\n4,r,40\n5,r,50\n"
BRANCHES = {
    "data/rows.csv": ROWS,
    "sources/rows.yaml": source("rows", "id INT, side STRING, qty INT"),
    "joints/shop/left_side.sql": "-- rivet:tags: [fresh]\nSELECT id, qty FROM rows WHERE side = 'l'",
    "joints/shop/doubled.sql": "-- rivet:owners: [team:shop]\nSELECT id, qty * 2 AS qty FROM left_side",
    "joints/right/right_side.sql": "-- rivet:tags: {level: raw}\nSELECT id, qty FROM rows WHERE side = 'r'",
    "sinks/marts/out.yaml": sink("out", "doubled", "right_side", tags=["fresh"]),
}
COUNTS = {"left_side": 3, "doubled": 3, "right_side": 2, "out": 5}


def run(root, instance, selection, *assets, raise_on_error=True):
    """Run a selection of the project's definitions and of these other assets."""
    others = dg.Definitions(
        assets=assets, jobs=[dg.define_asset_job("selected", selection)], resources={"memory": dg.mem_io_manager}
    )
    job = dg.Definitions.merge(load_definitions(root), others).resolve_job_def("selected")
    return job.execute_in_process(instance=instance, raise_on_error=raise_on_error)


def row_counts(result) -> dict[str, int | None]:
    """Return the row count of each materialization, or None."""
    found = {}
    for event in result.get_asset_materialization_events():
        count = event.materialization.metadata.get("dagster/row_count")
        found[event.asset_key.to_user_string()] = None if count is None else count.value
    return found


def started(result) -> list[str]:
    return [event.step_key for event in result.all_events if event.event_type_value == "STEP_START"]


# selections


SELECTIONS = (
    ('key:"left_side"', {"left_side"}, {"left_side"}),
    ('key:"doubled"', {"doubled"}, {"doubled"}),
    ('key:"out"', {"out"}, {"out"}),
    ('key:"*side"', {"left_side", "right_side"}, {"left_side", "right_side"}),
    ('key:"doubled" or key:"right_side"', {"doubled", "right_side"}, {"doubled", "right_side"}),
    ('+key:"doubled"', {"left_side", "doubled"}, {"doubled"}),
    ('key:"left_side"+1', {"left_side", "doubled"}, {"doubled"}),
    ('key:"left_side"+', {"left_side", "doubled", "out"}, {"out"}),
    ("tag:fresh", {"left_side", "out"}, {"out"}),
    ("tag:level=raw", {"right_side"}, {"right_side"}),
    ("group:shop", {"left_side", "doubled"}, {"doubled"}),
    ("group:marts and kind:sink", {"out"}, {"out"}),
    ("kind:sql and not tag:fresh", {"doubled", "right_side"}, {"doubled", "right_side"}),
    ('owner:"team:shop"', {"doubled"}, {"doubled"}),
    ("sinks(tag:fresh)", {"out"}, {"out"}),
    ("kind:pyspark and not kind:source", set(COUNTS), {"out"}),
)


@pytest.mark.parametrize(("selection", "expected", "ends"), some(SELECTIONS, 6))
def test_a_selection_runs_as_one_step_with_one_query_for_each_of_its_exits(
    project, instance, sql_executions, selection, expected, ends
):
    branches = project(BRANCHES)
    sql_executions.since()
    result = run(branches.root, instance, selection)
    assert sql_executions.since() == len(ends)
    assert row_counts(result) == {name: COUNTS[name] if name in ends else None for name in expected}
    assert started(result) == ["out"]
    assert [branches.versions(name, WORKSPACE) for name in COUNTS] == [[]] * 4
    assert len(branches.versions("out")) == (
        3 if "out" in expected else 0
    )  # a folder, its manifest, its file statistics
    if "out" in expected:
        assert branches.rows("out") == in_order({"id": i, "qty": q} for i, q in enumerate((20, 40, 60, 40, 50), 1))


def test_a_subset_reads_the_last_stored_version_of_another_group(project, instance, sql_executions):
    branches = project({**BRANCHES, "joints/shop/left_side.sql": "-- rivet:eager: true\nSELECT * FROM rows"})
    run(branches.root, instance, 'key:"left_side"')
    branches.write({"data/rows.csv": "id,side,qty\n9,l,90\n"})
    sql_executions.since()
    result = run(branches.root, instance, 'key:"doubled" or key:"right_side"')
    assert sql_executions.since() == 2
    assert row_counts(result) == {"doubled": 5, "right_side": 0}  # from the stored rows, and from the current file
    assert started(result) == ["out"]


def test_subsets_of_several_groups_run_in_order(project, instance):
    branches = project({**BRANCHES, "joints/shop/left_side.sql": "-- rivet:eager: true\nSELECT * FROM rows"})
    result = run(branches.root, instance, "group:shop")
    assert started(result) == ["left_side", "out"]
    assert row_counts(result) == {"left_side": 5, "doubled": 5}


def test_a_plain_asset_reads_a_fused_joint_in_the_run_of_its_group_and_after_it(project, instance, sql_executions):
    branches, seen = project(BRANCHES), []

    @dg.asset(ins={"rows": dg.AssetIn("doubled")}, io_manager_key="memory")
    def plain(rows: pa.Table):
        seen.append(sorted(rows["qty"].to_pylist()))

    sql_executions.since()
    result = run(branches.root, instance, 'key:"left_side"+ or key:"plain"', plain)
    assert sql_executions.since() == 2  # the group, and the view
    assert started(result) == ["out", "plain"]
    branches.write({"data/rows.csv": "id,side,qty\n9,l,90\n"})
    run(branches.root, instance, 'key:"plain"', plain)
    run(branches.root, instance, 'key:"doubled" or key:"plain"', plain)
    assert seen == [[20, 40, 60], [180], [180]]


# checks only


def verdicts(result) -> dict[str, bool]:
    return {f"{e.asset_key.to_user_string()}:{e.check_name}": e.passed for e in result.get_asset_check_evaluations()}


def files_with_checks(mode: str) -> dict:
    return {
        "data/rows.csv": ROWS,
        "sources/rows.yaml": source("rows", "id INT, side STRING, qty INT"),
        "sinks/out.yaml": {
            **sink("out", "rows", write_strategy=mode),
            "quality": {
                "assertions": [{"type": "row_count", "min": 1, "name": "batch"}],
                "audits": [{"type": "row_count", "max": 5, "name": "table"}],
            },
        },
    }


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("replace", {"out:batch": True, "out:table": True}),
        ("truncate_insert", {"out:batch": True, "out:table": True}),
        ("append", {"out:table": True}),
    ],
)
def test_a_checks_only_run_evaluates_assertions_only_if_the_table_equals_the_batch(project, instance, mode, expected):
    rows = project(files_with_checks(mode))
    assert run(rows.root, instance, 'key:"out"').success
    before = rows.bytes_of("out")
    result = run(rows.root, instance, dg.AssetSelection.checks_for_assets("out"))
    assert result.success
    assert verdicts(result) == expected
    assert row_counts(result) == {}
    assert rows.bytes_of("out") == before


# after a failure


WATCHED = """
from pathlib import Path

def transform(big):
    if Path("{flag}").exists():
        raise ValueError("not yet")
    return big
"""


@pytest.fixture
def remembering():
    """Yield an instance that stores runs, for later runs that refer to them."""
    with dg.instance_for_test() as found:
        yield found


def project_job() -> dg.JobDefinition:
    return load_definitions(os.environ["RIVET_TEST_PROJECT"]).resolve_job_def("all")


def test_a_re_execution_from_failure_runs_failed_and_skipped_steps(
    project, remembering, tmp_path, monkeypatch, sql_executions
):
    flag = tmp_path / "flag"
    flag.touch()
    folder = project({
        **GOES_ON,
        "data/rows.csv": ROWS,
        "sources/rows.yaml": source("rows", "id INT, side STRING, qty INT"),
        "joints/big.sql": "SELECT id, qty FROM rows WHERE qty > 10",
        "joints/made.py": WATCHED.format(flag=flag),
        "joints/later.sql": "SELECT id, qty + 1 AS qty FROM made",
        "sinks/report.yaml": sink("report", "big"),
        "sinks/latest.yaml": sink("latest", "later"),
    })  # fmt: skip
    monkeypatch.setenv("RIVET_TEST_PROJECT", str(folder.root))
    job = dg.reconstructable(project_job)
    with dg.execute_job(job, remembering) as first:
        assert not first.success
    assert {event.step_key for event in first.get_step_failure_events()} == {"made"}
    report_before = folder.bytes_of("report")

    flag.unlink()
    folder.write({"data/rows.csv": "id,side,qty\n9,l,90\n"})
    sql_executions.since()
    how = dg.ReexecutionOptions.from_failure(first.run_id, remembering)
    with dg.execute_job(job, remembering, reexecution_options=how) as second:
        assert second.success
        assert started(second) == ["made", "latest"]
        assert set(row_counts(second)) == {"made", "later", "latest"}
    assert sql_executions.since() == 2
    assert folder.bytes_of("report") == report_before
    # The rows that the first run stored, not the current ones of the file.
    assert folder.rows("latest") == in_order({"id": i, "qty": i * 10 + 1} for i in range(2, 6))
    published = folder.runtime.catalog("lake").current("latest")
    assert published.identity == f"{first.run_id}/latest"
