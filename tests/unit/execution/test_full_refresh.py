"""Full refreshes that cannot be carried out, or would lose rows; nothing is run."""

from unittest.mock import patch

import pytest
from support.projects import compile_joints, sink, source, sql
from support.tables import publish, refused

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.execution.full_refresh import refuse_lossy_refresh
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.write_plan import ReplaceAll

NEW = "SELECT * FROM {} {{% if is_incremental('out') %}} WHERE n > {{{{ watermark_value('out') }}}} {{% endif %}}"
MERGE = {"mode": "merge", "key_columns": ["n"], "watermark_column": "n"}


def plan(strategy: object = MERGE, first: str = NEW.format("orders"), **options: object) -> CompiledAssembly:
    """Return a chain of two stored joints, read by a sink and by another one that appends."""
    return compile_joints(
        source("orders", columns=(("n", None),), options=options),
        sql("first", first, eager=True),
        sql("second", "SELECT * FROM first", eager=True),
        sql("third", "SELECT * FROM second", eager=True),
        sink("out", "third", write_strategy=strategy),
        sink("copy", "third", write_strategy="append"),
        sink("last", "third"),
    ).raise_errors()


LANDING = {"first": "SELECT * FROM orders", "landing": True}


@pytest.mark.parametrize("facts", [{}, LANDING, {**LANDING, "strategy": "append"}], ids=["template", "landing", "both"])
@pytest.mark.parametrize(
    ("groups", "missing"),
    [
        ("first second third out copy", ()),
        ("third", ()),
        ("last", ()),
        ("out", ("third", "second", "first")),
        ("copy", ("third", "second", "first")),
        ("first third out", ("second",)),
        ("second third copy last", ("first",)),
    ],
)
def test_what_holds_only_new_rows_must_be_in_the_run(tmp_path, facts, groups, missing):
    runtime = Runtime(plan(**facts), tmp_path)
    refuse_lossy_refresh(runtime, groups.split())  # there is no table yet
    lake = runtime.target_catalog("lake")
    for name in ("out", "copy", "last"):
        publish(lake, [1], name)
    if not missing:
        refuse_lossy_refresh(runtime, groups.split())
        return
    diagnostics = refused(refuse_lossy_refresh, runtime, groups.split()).diagnostics
    assert {each.code for each in diagnostics} == {"RVT-525"}
    assert [name for name in ("third", "second", "first") if any(f"'{name}'" in d.message for d in diagnostics)] == [
        *missing
    ]


def test_stored_joints_that_hold_all_rows_need_not(tmp_path):
    runtime = Runtime(plan(first="SELECT * FROM orders"), tmp_path)
    publish(runtime.target_catalog("lake"), [1], "out")
    refuse_lossy_refresh(runtime, ["out", "copy"])


def test_a_catalog_that_cannot_refresh_refuses_before_anything_is_written(tmp_path):
    runtime = Runtime(plan(first="SELECT * FROM orders"), tmp_path)
    with patch.object(FilesystemCatalog, "write_plans", frozenset({ReplaceAll})):
        refuse_lossy_refresh(runtime, ["copy", "last"])  # appending to no rows is replacing
        error = refused(refuse_lossy_refresh, runtime, ["out", "copy"])
        assert [(each.code, each.joint) for each in error.diagnostics] == [("RVT-413", "out")]
        assert refused(run_group, runtime, "out", ["out"], "run/out", full_refresh=True).code == "RVT-413"
    assert not (tmp_path / "lake").exists()


def test_tables_are_looked_up_where_rows_could_be_lost_alone(tmp_path):
    """Each step of a run comes here: looking up all tables would cost the square of their number in requests."""
    alone = Runtime(plan(first="SELECT * FROM orders"), tmp_path)
    partial = Runtime(plan(), tmp_path)
    with patch.object(FilesystemCatalog, "current", return_value=None) as looked_up:
        refuse_lossy_refresh(alone, ["first", "second", "third", "out", "copy", "last"])
        refuse_lossy_refresh(partial, ["first", "second", "third", "out", "copy", "last"])
        assert looked_up.call_count == 0
        refuse_lossy_refresh(partial, ["first", "third", "out", "last"])
        assert [call.args for call in looked_up.call_args_list] == [("out",)]
