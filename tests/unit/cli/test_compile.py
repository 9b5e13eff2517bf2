"""``rivet-dagster compile``: its formats and exit codes, without a JVM."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from rivet_dagster import compile_directory
from rivet_dagster.cli.main import main

FILES = {
    "rivet.yaml": "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\n",
    "profiles.yaml": """
default:
  catalogs:
    lake: {type: filesystem, path: lake}
  engines:
    - {name: spark, type: pyspark, catalogs: [lake]}
  default_engine: spark
""",
    "sources/raw.yaml": "type: source\ncatalog: lake\ntable: 'raw/\"b\"'\noptions: {schema: 'id BIGINT, net DOUBLE'}\n",
    "joints/a.sql": "-- rivet:assert: not_null(id)\nSELECT id, net FROM raw",
    "joints/b.sql": "SELECT net * 2 AS twice FROM a",
    "sinks/end.yaml": "name: graph\ntype: sink\ncatalog: lake\ntable: report\nupstream: b\n",
}


@pytest.fixture
def project(tmp_path):
    def write(**changes):
        for name, text in {**FILES, **{k.replace("__", "/"): v for k, v in changes.items()}}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return str(tmp_path)

    return write


def run(capsys, *arguments):
    code = main(list(arguments))
    return code, *capsys.readouterr()


def test_json_contains_the_lineage(project, capsys):
    code, out, _ = run(capsys, "-p", project(), "compile", "--format", "json")
    joints = {joint["name"]: joint for joint in json.loads(out)["joints"]}
    assert code == 0
    assert joints["graph"]["lineage"] == [
        {
            "column": "twice",
            "upstream": [{"joint": "b", "column": "twice"}],
            "sources": [{"joint": "raw", "column": "net"}],
        }
    ]
    assert joints["graph"]["schema_confidence"] == "inferred"


def test_variables_of_the_command_win(project, capsys):
    text = "SELECT id{% for c in var('columns') %}, {{ c }}{% endfor %} FROM raw WHERE id > {{ var('least') }}"
    manifest = FILES["rivet.yaml"] + "vars: {least: 1, columns: [net]}\n"
    root = project(**{"rivet.yaml": manifest, "joints/a.sql": text})

    def sql(*options):
        code, out, _ = run(capsys, "-p", root, "compile", "a", "--format", "json", *options)
        assert code == 0
        return next(joint["sql"] for joint in json.loads(out)["joints"] if joint["name"] == "a")

    assert sql() == "SELECT id, net FROM raw WHERE id > 1"
    assert sql("--var", "least=7") == "SELECT id, net FROM raw WHERE id > 7"
    assert (
        sql("--var", "least=0.10", "--var=columns=[net, id AS b]") == "SELECT id, net, id AS b FROM raw WHERE id > 0.10"
    )
    for variable, message in (
        ("least", "--var: 'least' has no value; write --var NAME=VALUE"),
        ("laest=1", "--var: there is no variable 'laest'; did you mean 'least'?"),
    ):
        code, out, _ = run(capsys, "-p", root, "compile", "--format", "json", "--var", variable)
        (error,) = json.loads(out)["errors"]
        assert (code, error["code"], error["message"]) == (10, "RVT-110", message)


def test_a_variable_that_only_a_template_names_can_be_given(project, capsys):
    root = project(**{"joints/a.sql": "SELECT id, net, 1 AS {{ var('name', 'b') }} FROM raw"})
    code, out, _ = run(capsys, "-p", root, "compile", "a", "--format", "json", "--var", "name=c")
    assert code == 0
    assert {joint["sql"] for joint in json.loads(out)["joints"] if joint["name"] == "a"} == {
        "SELECT id, net, 1 AS c FROM raw"
    }


def test_mermaid(project, capsys):
    code, out, _ = run(capsys, "-p", project(), "compile", "--format", "mermaid")
    lines = [line.strip() for line in out.splitlines()]
    nodes = dict(re.findall(r"^\s*(j\d+)([\[{]{1,2}\(?.*):::\w+$", out, re.M))
    assert code == 0
    assert lines[0] == "flowchart LR"
    assert sum(line.startswith("subgraph") for line in lines) == lines.count("end") == 2
    assert 'subgraph g0["a on spark"]' in lines
    assert sorted(nodes.values()) == [
        '["a<br/>1 check"]',
        '["b"]',
        '[("raw<br/>lake.raw/#quot;b#quot;")]',
        '[["graph<br/>lake.report"]]',
    ]
    arrows = [re.fullmatch(r'(j\d+) (-->|==>\|"[^"]*"\|) (j\d+)', line) for line in lines]
    edges = [(match[1], match[3], match[2]) for match in arrows if match]
    assert len(edges) == 3
    assert {end for edge in edges for end in edge[:2]} == set(nodes)
    assert [kind for *_, kind in edges if kind != "-->"] == ['==>|"stored: it has checks"|']


def test_mermaid_of_one_joint_shows_its_group_and_what_it_reads(project, capsys):
    _, out, _ = run(capsys, "-p", project(), "compile", "--format", "mermaid", "graph")
    assert "subgraph" in out
    assert "raw" not in out
    assert out.count(":::") == 3


def test_an_incremental_joint_is_shown_as_such(project, capsys):
    sink = FILES["sinks/end.yaml"] + "write_strategy: {mode: merge, key_columns: twice, watermark_column: twice}\n"
    guard = "{% if is_incremental() %} WHERE net > {{ watermark_value }} OR net NOT IN (FROM {{ this }}){% endif %}"
    root = project(**{"joints/b.sql": FILES["joints/b.sql"] + guard, "sinks/end.yaml": sink})
    assert "    later   incremental: b (by the watermark and rows of graph)\n" in run(capsys, "-p", root, "compile")[1]
    assert '"b<br/>incremental"' in run(capsys, "-p", root, "compile", "--format", "mermaid")[1]
    (_, group) = json.loads(run(capsys, "-p", root, "compile", "--format", "json")[1])["fused_groups"]
    assert "watermark" not in group["sql"]
    assert "net > :watermark_of_graph OR net NOT IN (FROM _rivet_this_graph)" in group["sql_incremental"]


def test_diff(project, capsys, tmp_path):
    # A column known to be missing would not compile; here it may be a column of another table.
    read = {"joints__b.sql": "SELECT net * 2 AS twice FROM a CROSS JOIN elsewhere"}
    root = project(**read)
    _, old, _ = run(capsys, "-p", root, "compile", "--format", "json")
    saved = tmp_path / "old.json"
    saved.write_text(old)
    assert run(capsys, "-p", root, "compile", "--diff", str(saved)) == (0, "no difference\n", "")

    project(**read, **{"joints__a.sql": "SELECT id FROM raw", "joints__c.sql": "SELECT 1 AS x"})
    code, out, _ = run(capsys, "-p", root, "compile", "--diff", str(saved))
    assert code == 0
    assert out.splitlines() == [
        "+ c",
        "~ a  (its own logic)",
        "~ b  (through a)",
        "~ graph  (through b)",
        "! a.net is gone: read by b",
    ]
    code, out, _ = run(capsys, "-p", root, "compile", "--diff", str(saved), "--format", "json")
    assert (code, json.loads(out)["added"]) == (0, ["c"])


@pytest.mark.parametrize("text", [None, "no json", "{}"])
def test_diff_with_a_file_that_is_no_plan(project, capsys, tmp_path, text):
    if text is not None:
        (tmp_path / "old.json").write_text(text)
    place = str(tmp_path / "old.json")
    code, out, err = run(capsys, "-p", project(), "compile", "--diff", place)
    assert (code, out) == (10, "")
    assert "RVT-113" in err
    code, out, _ = run(capsys, "-p", project(), "compile", "--diff", place, "--format=json")
    assert json.loads(out)["errors"][0]["code"] == "RVT-113"


def test_diff_needs_whole_plans(project, capsys):
    assert run(capsys, "-p", project(), "compile", "a", "--diff", "old.json")[0] == 10


SECRETS = """
default:
  catalogs:
    lake: {type: filesystem, path: lake}
    far: {type: filesystem, path: 'hdfs://ann:hunter2@bucket/raw'}
  engines:
    - name: spark
      type: pyspark
      catalogs: [lake]
      options:
        config:
          spark.hadoop.fs.s3a.secret.key: hunter2
          spark.authenticate.secret: ${GATE}
          spark.sql.mapKeyDedupPolicy: LAST_WIN
"""


def test_a_literal_secret_is_shown_nowhere_and_still_works(project, capsys, monkeypatch):
    monkeypatch.setenv("GATE", "hunter3")
    root = project(**{"profiles.yaml": SECRETS})
    code, out, err = run(capsys, "-p", root, "compile", "--format", "json")
    plan = json.loads(out)
    assert (code, plan["success"]) == (0, True)
    assert "hunter" not in out + err
    assert plan["catalogs"][1]["options"] == {"path": "hdfs://bucket/raw"}
    assert plan["engines"][0]["options"]["config"] == {
        "spark.hadoop.fs.s3a.secret.key": "***",
        "spark.authenticate.secret": "${GATE}",
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    }
    warnings = [(one["code"], one["file"], one["line"], one["message"].partition(":")[0]) for one in plan["warnings"]]
    assert warnings == [
        ("RVT-125", "profiles.yaml", 5, "catalog 'far'"),
        ("RVT-125", "profiles.yaml", 11, "engine 'spark'"),
    ]
    assert "`config.spark.hadoop.fs.s3a.secret.key`" in plan["warnings"][1]["message"]
    options = compile_directory(root).engines[0].options
    assert options["config"]["spark.hadoop.fs.s3a.secret.key"] == "hunter2"  # what a run gets

    broken = SECRETS.replace("far: {", "far: {format: hunter2, ")
    code, out, err = run(capsys, "-p", project(**{"profiles.yaml": broken}), "compile")
    assert (code, "`format` must be one of" in err, "hunter" in out + err) == (10, True, False)


def test_the_plan_says_where_no_version_can_be_brought_back(project, capsys):
    """A database keeps the current version alone; folders, and tables of the workspace, are not spoken of."""
    catalogs = "    lake: {type: filesystem, path: lake}\n"
    shop = "    shop: {type: jdbc, url: 'jdbc:postgresql://db/shop'}\n"
    declared = FILES["profiles.yaml"].replace(catalogs, catalogs + shop).replace("[lake]", "[lake, shop]")
    root = project(
        **{
            "profiles.yaml": declared,
            "sinks/other.yaml": "type: sink\ncatalog: shop\ntable: report\nupstream: b\n",
        },
    )
    _, text, _ = run(capsys, "-p", root, "compile")
    assert text.count("'shop' keeps the current one alone: no rollback") == text.count("no rollback") == 1
    _, out, _ = run(capsys, "-p", root, "compile", "--format", "json")
    kept = {
        group["name"]: group["target"]["keeps_versions"] for group in json.loads(out)["fused_groups"] if group["target"]
    }
    assert (kept["graph"], kept["other"]) == (True, False)


BLOCK = """
dagster:
  schedules:
    good: {target: 'group:default and kind:sink', cron_schedule: '@daily'}
    bad: {target: '+key:"grahp"', cron_schedule: '@daily'}
    unresolved: {target: 'column:id', cron_schedule: '@daily'}
  automation:
    - {target: 'key:"raw"', condition: eager}
"""


def test_targets_that_select_nothing_are_told_with_all_other_errors(project, tmp_path, capsys):
    manifest = FILES["rivet.yaml"] + BLOCK
    root = project(**{"rivet.yaml": manifest.replace("eager", "eagr"), "joints/c.sql": "SELECT 1; SELECT 2"})
    code, out, err = run(capsys, "-p", root, "compile")
    assert (code, out) == (1, "")
    assert [line.split(" ", 3)[:2] for line in err.splitlines() if line.startswith("RVT")] == [
        ["RVT-207", "joints/c.sql:1:"],
        ["RVT-115", "rivet.yaml:9:"],
        ["RVT-115", "rivet.yaml:10:"],
        ["RVT-104", "rivet.yaml:12:"],
    ]
    assert "'+key:\"grahp\"' selects nothing of this project; did you mean 'graph'?" in err
    (tmp_path / "joints/c.sql").unlink()
    (tmp_path / "rivet.yaml").write_text(manifest)
    code, out, err = run(capsys, "-p", root, "compile", "--format", "json")
    plan = json.loads(out)
    assert code == 10
    assert [(error["code"], error["line"]) for error in plan["errors"]] == [
        ("RVT-115", 9),
        ("RVT-115", 10),
        ("RVT-115", 12),
    ]
    assert plan["errors"][2]["message"] == "automation rule 1: 'key:\"raw\"' selects only raw, which can only be read"
    assert plan["fused_groups"]


@pytest.mark.slow
def test_dagster_is_imported_once_for_the_same_targets(project, capsys):
    root = project(**{"rivet.yaml": FILES["rivet.yaml"] + BLOCK})
    first = run(capsys, "-p", root, "compile")
    assert "did you mean 'graph'?" in first[2]
    text = "import sys; from rivet_dagster.cli.main import main; main(sys.argv[1:]); print('dagster' in sys.modules)"
    again = subprocess.run([sys.executable, "-c", text, "-p", root, "compile"], capture_output=True, text=True)
    assert (again.stdout, again.stderr) == ("False\n", first[2])


def test_kinds_are_those_of_the_engines_of_the_project(project, capsys):
    engines = "engines:\n    - {name: duck, type: duckdb, catalogs: [lake]}"
    block = "dagster:\n  schedules: {nightly: {target: 'kind:pyspark and kind:sink', cron_schedule: '@daily'}}\n"
    profiles = FILES["profiles.yaml"].replace("engines:", engines)
    root = project(**{"rivet.yaml": FILES["rivet.yaml"] + block, "profiles.yaml": profiles})
    assert run(capsys, "-p", root, "compile")[0] == 0
    assert run(capsys, "-p", root, "compile", "--engine", "duck")[0] == 0
