"""The plan as text and as a tree: every boundary between groups has its reason."""

import re

import pytest
from hypothesis import given, settings
from support.projects import compile_joints, python, sink, source, sql
from support.random_projects import RandomProject, projects
from support.terminal import COLUMNS, terminal
from support.torture import examples

from rivet_dagster.cli.compile.outline import plan_text
from rivet_dagster.cli.console import show
from rivet_dagster.compiler.plan import CompiledAssembly

NOT_NULL = {"assertions": [{"type": "not_null", "columns": ["id"]}]}
DAILY = {"type": "daily", "column": "day", "start": "2024-01-01"}
QUARANTINE = {"mode": "quarantine", "max_errors": 3}
ONE = "SELECT 1 AS id, DATE '2024-01-01' AS day"


def reading(name: str) -> str:
    return f"SELECT * FROM {name}"


def lines_of(text: str, group: str) -> list[str]:
    """Return the lines about a group, without their indentation."""
    block = re.split(r"\n(?=  \S|\S|\n)", text[text.index(f"\n  {group}  ") + 1 :])[0]
    return [line.strip() for line in block.splitlines()]


def reason(plan: CompiledAssembly, group: str) -> str:
    """Return the reason that the text gives for the end of a group."""
    (found,) = [line for line in lines_of(plan_text(plan), group) if line.split()[0] in ("ends", "alone")]
    return found.split(maxsplit=1)[1]


JUDGED = {"assertions": [{"type": "relationship", "column": "id", "to": "a.id"}]}
MODEL, FUNCTIONS = python("model", "a")
CASES = {
    "declared eager": [sql("a", ONE, eager=True), sql("b", reading("a"))],
    "it has checks": [sql("a", ONE, quality=NOT_NULL), sql("b", reading("a"))],
    "2 joints read it": [sql("a", ONE), sql("b", reading("a")), sql("c", reading("a"))],
    "checks of c read it, too": [sql("a", ONE), sql("b", reading("a")), sql("c", ONE, quality=JUDGED)],
    "only checks of c read it": [sql("a", ONE), sql("c", ONE, quality=JUDGED)],
    "read twice, and not the same each time": [
        sql("a", "SELECT rand() AS id"),
        sql("b", "SELECT x.id FROM a x JOIN a y USING (id)"),
    ],
    "b reads it on the engine other": [sql("a", ONE), sql("b", reading("a"), engine="other")],
    "b has other partitions": [sql("a", ONE, partitions=DAILY), sql("b", reading("a"))],
    "b has another `on_error`": [sql("a", ONE, on_error=QUARANTINE), sql("b", reading("a"))],
    "the Python function model reads it": [sql("a", ONE), MODEL],
    "no joint reads it": [sql("a", ONE)],
}
TABLE = "published as a table of its own"
TABLES = [[sql("a", ONE, catalog="lake")], [sql("a", ONE, catalog="lake"), sql("b", reading("a"))]]
SOURCES = {
    "it has checks": [source("a", quality=NOT_NULL), sql("b", reading("a"))],
    "2 groups read it": [source("a"), sql("b", reading("a")), sql("c", reading("a"))],
    "b reads it on the engine other": [source("a", engine="spark"), sql("b", reading("a"), engine="other")],
    "b has other partitions": [source("a", partitions=DAILY), sql("b", reading("a"))],
    "the Python function model reads it": [source("a"), MODEL],
    "no joint reads it": [source("a"), sql("b", ONE)],
}


@pytest.mark.parametrize(
    ("expected", "joints"), [*CASES.items(), *SOURCES.items(), *((TABLE, tables) for tables in TABLES)]
)
def test_each_boundary_has_a_reason_with_the_joints_that_it_is_about(expected, joints):
    plan = compile_joints(*joints, functions=FUNCTIONS if MODEL in joints else None)
    assert reason(plan, "a") == expected


def test_a_sink_a_function_and_the_depth_end_groups():
    deep = [sql(f"j{n}", reading(f"j{n - 1}") if n else ONE) for n in range(5)]
    joints = [*deep, sink("out", "j4"), sql("a", ONE), MODEL]
    plan = compile_joints(*joints, functions=FUNCTIONS, max_fusion_depth=3)
    assert reason(plan, "out") == "it is a sink"
    assert reason(plan, "model") == "no joint reads it"
    (stored,) = [m.joint for m in plan.materializations if m.reason == "depth"]
    assert reason(plan, stored) == "the query would nest too deeply"
    after = compile_joints(sql("a", ONE), MODEL, sql("b", reading("model")), functions=FUNCTIONS)
    assert reason(after, "model") == "it is a Python function"


def assert_reasons(plan: CompiledAssembly) -> None:
    """Assert that each joint tells of each joint of another group that it reads, and why it is not fused with it."""
    text = plan_text(plan)
    for group in plan.fused_groups:
        lines = lines_of(text, group.name)
        assert re.match(r"(ends|alone) +\S", lines[-1]), lines
        for name in group.joints if group.target is not None else ():
            joint = re.compile(rf"((fuses|runs|calls) +)?{name} +(source|sql|sink|python)")
            (own,) = [number for number, line in enumerate(lines) if joint.match(line)]
            told = []
            for line in lines[own + 1 :]:
                if not line.startswith("reads "):
                    break
                found = re.fullmatch(r"reads (\w+)(?: from the engine \w+, [^:]+)?: (.+)", line)
                assert found, line
                assert found[2] == reason(plan, plan.joint(found[1]).group)
                told.append(found[1])
            assert told == [u for u in plan.joint(name).upstream if u not in group.joints]


@pytest.mark.slow
@settings(max_examples=examples(20, 100))
@given(projects())
def test_each_joint_tells_why_it_is_not_fused_with_what_it_reads(found: RandomProject):
    assert_reasons(compile_joints(*found.joints).raise_errors())


def test_how_rows_cross_engines_how_they_are_written_and_what_is_judged_is_told():
    plan = compile_joints(
        sql("a", ONE, retention="run"),
        sql("b", reading("a"), engine="other"),
        sink("out", "b", engine="spark", write_strategy={"mode": "merge", "key_columns": ["id", "day"]}),
        sql("c", ONE, quality=JUDGED),
    )
    text = plan_text(plan)
    assert "reads a from the engine spark, read in place: checks of c read it, too\n" in text
    assert "writes  lake.out  (merge by id, day)" in text
    assert "writes  workspace.a  (replace), removed after " in text
    assert "its checks read a: checks of c read it, too\n" in text


def test_a_terminal_gets_a_tree_with_colours_of_the_same_words(monkeypatch):
    from rivet_dagster.cli.compile.command import plan_tree

    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    long = {"assertions": [{"type": "not_null", "columns": ["id"], "name": f"check_number_{n}"} for n in range(9)]}
    plan = compile_joints(source("raw"), sql("a", reading("raw"), quality=long), sink("out", "a"))
    with terminal() as (stream, seen):
        show(plan_tree(plan), stream)
    assert "\x1b[1;36mwave 1\x1b[0m" in seen.text
    assert max(map(len, seen.final)) <= COLUMNS
    assert seen.final[3:7] == [
        "wave 1",
        "└── a  on spark",
        "    fuses   raw  source lake.raw, columns not known",
        "            a    sql, columns not known",
    ]
    plain = plan_text(plan).split()
    assert [word for word in " ".join(seen.final).split() if word not in ("└──", "├──", "│")] == plain
    assert plan_text(plan, width=COLUMNS).split() == plain
    assert max(map(len, plan_text(plan, width=COLUMNS).splitlines())) <= COLUMNS
