"""The three forms of joint files: their declarations, and every error with code and line."""

import pytest

from rivet_dagster.model.joint import Joint
from rivet_dagster.model.project import Project
from rivet_dagster.model.write_strategy import WriteStrategy

from .conftest import Load


def only(project: Project) -> Joint:
    assert project.errors == ()
    (joint,) = project.joints
    return joint


FULL_YAML = """\
# a sink with everything
name: orders
type: sink
upstream: cleaned
catalog: lake
table: orders
tags: {fresh: , team: sales}
description: >-
  Orders,
  cleaned
owners: [team:sales]
group: marts
write_strategy: {mode: full_refresh, on_empty: skip}
options: {compression: zstd, nested: {a: NO}}
engine: spark
quality:
  assertions:
    - type: not_null
      columns: [id]
  audits: [{type: row_count, min: 1}]
"""


def test_yaml(load: Load) -> None:
    joint = only(load({"sinks/x.yaml": FULL_YAML}))
    assert joint == Joint(
        name="orders", type="sink", upstream=["cleaned"], catalog="lake", table="orders",
        tags={"fresh": "", "team": "sales"}, description="Orders, cleaned", owners=["team:sales"], group="marts",
        write_strategy=WriteStrategy("replace", "skip"), options={"compression": "zstd", "nested": {"a": "NO"}},
        engine="spark", quality=joint.quality,
    )  # fmt: skip
    assert [(c.name, c.phase, c.file, c.line) for c in joint.quality] == [
        ("not_null_id", "assertion", "sinks/x.yaml", 18),
        ("audit_row_count", "audit", "sinks/x.yaml", 20),
    ]
    assert type(joint.options["nested"]) is dict
    assert (joint.origin.file, joint.origin.line, joint.origin.lines["tags"]) == ("sinks/x.yaml", 2, 7)


@pytest.mark.parametrize(
    ("text", "sql", "line"),
    [
        ("type: sql\nsql: |\n  SELECT\n    1\n", "SELECT\n  1\n", 3),
        ("type: sql\nsql: SELECT 1\n", "SELECT 1", 2),
        ("type: sql\nsql:\n  SELECT\n  1\n", "SELECT 1", 3),
    ],
)
def test_sql_in_yaml_has_its_line(load: Load, text: str, sql: str, line: int) -> None:
    joint = only(load({"joints/a.yml": text}))
    assert (joint.name, joint.sql, joint.origin.lines["sql"]) == ("a", sql, line)


def test_yaml_source_columns(load: Load) -> None:
    text = "type: source\ncatalog: lake\ntable: t\ncolumns: [on, {no: a + 1}]\nfilter: a > 0\nlimit: 012\n"
    joint = only(load({"sources/s.yaml": text}))
    assert (joint.columns, joint.filter, joint.limit) == ((("on", None), ("no", "a + 1")), "a > 0", 12)


@pytest.mark.parametrize(
    ("text", "fields", "line"),
    [
        ("SELECT 1", {"sql": "SELECT 1"}, 1),
        ("\n\n  SELECT 1 ;\n\n", {"sql": "  SELECT 1 ;"}, 3),
        ("-- rivet:eager: true\nSELECT 1\n", {"sql": "SELECT 1", "eager": True}, 2),
        ("\ufeff-- rivet:eager: true\r\n\r\nSELECT\r\n 1\r\n", {"sql": "SELECT\r\n 1", "eager": True}, 3),
        ("--rivet:eager: true # yes\rSELECT 1", {"sql": "SELECT 1", "eager": True}, 2),
        (
            "-- Copyright\n\n  -- rivet: tags : [a, b]\n-- why\n--   rivet:upstream: x\n\n-- by day\nSELECT 1 -- end",
            {"sql": "-- by day\nSELECT 1 -- end", "tags": ["a", "b"], "upstream": ["x"]},
            7,
        ),
        (
            "-- rivet:name: b\n-- rivet:description: Note: what it's for\n-- rivet:group: 'g'\nSELECT 1",
            {"name": "b", "sql": "SELECT 1", "description": "Note: what it's for", "group": "g"},
            4,
        ),
        ("-- rivet:tags: {a: b}\n-- rivet:owners: team:x\nSELECT '--\nx'",
         {"sql": "SELECT '--\nx'", "tags": {"a": "b"}, "owners": ["team:x"]}, 3),
        ("/* rivet:eager: true */ SELECT 1", {"sql": "/* rivet:eager: true */ SELECT 1"}, 1),
    ],
)  # fmt: skip
def test_sql(load: Load, text: str, fields: dict[str, object], line: int) -> None:
    joint = only(load({"joints/a.sql": text}))
    assert joint == Joint(**{"name": "a", "type": "sql"} | fields)  # type: ignore[arg-type]
    assert joint.origin.lines["sql"] == line


def test_a_source_or_sink_in_a_sql_file(load: Load) -> None:
    keys = "type: source", "catalog: lake", "table: t", "columns: [a, {b: a + 1}]"
    text = "".join(f"-- rivet:{key}\n" for key in keys) + "-- the end\n"
    joint = only(load({"sources/s.SQL": text}))
    assert joint == Joint(name="s", type="source", catalog="lake", table="t", columns=["a", {"b": "a + 1"}])


def test_checks_of_all_annotations(load: Load) -> None:
    text = (
        "-- rivet:audit: not_null(a)\n-- rivet:assert: not_null(a)\n-- rivet:assert: not_null(a, severity=warn)\n"
        "-- rivet:quality: {assertions: [{type: unique, columns: a}]}\nSELECT 1 AS a"
    )
    checks = only(load({"joints/a.sql": text})).quality
    assert [(c.name, c.phase, c.severity, c.line) for c in checks] == [
        ("unique_a", "assertion", "error", 4),
        ("audit_not_null_a", "audit", "error", 1),
        ("not_null_a", "assertion", "error", 2),
        ("not_null_a_2", "assertion", "warn", 3),
    ]


def test_python(load: Load) -> None:
    text = (
        "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# rivet:tags: [daily]\n\n# rivet:assert: not_null(a)\n"
        '"""Text with\n# rivet:eager: true\nin it."""\ndef transform(orders): ...\n'
    )
    project = load({"joints/marts/scores.py": text})
    joint = only(project)
    assert (joint.name, joint.type, joint.function) == ("scores", "python", "joints.marts.scores:transform")
    assert (joint.tags, [c.name for c in joint.quality], joint.upstream) == ({"daily": ""}, ["not_null_a"], None)
    assert project.functions["scores"].parameters == ("orders",)
    assert project.asset_groups == {"scores": "marts"}


YAML_SQL = "type: sql\nsql: SELECT 1\n"
PYTHON = "def transform(a): ...\n"


@pytest.mark.parametrize(
    ("file", "text", "code", "line", "words"),
    [
        ("a.yaml", "", "RVT-202", None, "must hold a mapping"),
        ("a.yaml", "- a", "RVT-202", 1, "must hold a mapping"),
        ("a.yaml", "type: sql\nsql: [", "RVT-202", 2, "cannot be read"),
        ("a.yaml", b"type: sql\nsql: \xe9", "RVT-211", 2, "UTF-8"),
        ("a.yaml", "type: sql", "RVT-205", 1, "needs `sql`"),
        ("a.yaml", YAML_SQL + "name: 5", "RVT-2", 3, "no name"),
        ("a.yaml", YAML_SQL + 'name: "a\\n"', "RVT-2", 3, "no name"),
        ("a.yaml", YAML_SQL + "table: x", "RVT-206", 3, "no meaning on a sql joint"),
        ("a.yaml", YAML_SQL + "write_strategy: {mode: [a]}", "RVT-204", 3, "has no mode a list"),
        ("a.yaml", YAML_SQL + "quality: 5", "RVT-204", 3, "must be a mapping"),
        ("a.yaml", YAML_SQL + "quality: {assertons: []}", "RVT-203", 3, "did you mean 'assertions'?"),
        ("a.yaml", YAML_SQL + "quality:\n  audits:\n    - type: [x]", "RVT-209", 5, "no check is of kind"),
        ("a.yaml", YAML_SQL + "quality:\n  audits:\n  - type: unique\n    columns: a\n    nm: x", "RVT-203", 7, "name"),
        ("A b.sql", "SELECT 1", "RVT-2", 1, "'A b' is no name"),
        ("a.sql", "-- rivet:nme: b\nSELECT 1", "RVT-203", 1, "did you mean 'name'?"),
        ("a.sql", "-- rivet:asert: row_count(min=1)\nSELECT 1", "RVT-203", 1, "did you mean 'assert'"),
        ("a.sql", "-- rivet:eager: true\n-- rivet:eager: true\nSELECT 1", "RVT-208", 2, "first given on line 1"),
        ("a.sql", "-- rivet:eager true\nSELECT 1", "RVT-208", 1, "written `-- rivet:key: value`"),
        ("a.sql", "-- rivet:eager:true\nSELECT 1", "RVT-208", 1, "written `-- rivet:key: value`"),
        ("a.sql", "-- Rivet:eager: true\nSELECT 1", "RVT-208", 1, "written `-- rivet:key: value`"),
        ("a.sql", "-- rivet:eager:\nSELECT 1", "RVT-208", 1, "no value"),
        ("a.sql", "-- rivet:description: >\n--   x\nSELECT 1", "RVT-208", 1, "on the line of its key"),
        ("a.sql", "-- rivet:tags: [a\nSELECT 1", "RVT-208", 1, "cannot be read"),
        ("a.sql", "/* x */\n-- rivet:eager: true\nSELECT 1", "RVT-208", 2, "below the beginning"),
        ("a.sql", "\n-- rivet:sql: SELECT 2\nSELECT 1", "RVT-206", 2, "the file's own text"),
        ("a.sql", "-- rivet:eager: maybe\nSELECT 1", "RVT-204", 1, "true or false"),
        ("a.sql", "\n-- rivet:type: source\n-- rivet:catalog: c\n-- rivet:table: t\nSELECT 1", "RVT-206", 5, "`sql`"),
        ("a.sql", "-- rivet:audit: [row_count]\nSELECT 1", "RVT-209", 1, "written `kind`"),
        ("a.sql", "-- rivet:audit: {type: row_count\nSELECT 1", "RVT-209", 1, "the check cannot be read"),
        ("a.py", "# rivet:eager: true\nx = 1  # rivet:name: b\n# rivet:name: b\n" + PYTHON, "RVT-208", 3, "below"),
        ("a.py", "# rivet:type: sql\n" + PYTHON, "RVT-204", 1, "can only be python"),
        ("a.py", "# rivet:sql: x\n" + PYTHON, "RVT-206", 1, "no meaning on a python joint"),
        ("a.py", "#!x\n# rivet:function: a.b.c\n" + PYTHON, "RVT-210", 2, "written `package.module:name`"),
        ("a.py", "# rivet:function: a.b:c\n" + PYTHON, "RVT-210", 1, "neither a/b.py nor a/b/__init__.py"),
        ("a.py", PYTHON + "\0", "RVT-210", None, "Python"),
    ],
)  # fmt: skip
def test_errors(load: Load, file: str, text: str | bytes, code: str, line: int | None, words: str) -> None:
    (error,) = load({f"joints/{file}": text}).errors
    assert error.code.startswith(code)
    assert (error.file, error.line) == (f"joints/{file}", line)
    assert words in error.message
    assert error.joint is not None


def test_all_errors_at_once_in_order(load: Load) -> None:
    project = load({
        "sinks/z.yaml": "type: sink\nlimit: 5\ntabel: x\n",
        "joints/b.sql": "-- rivet:nmae: b\n-- rivet:eager: 5\n-- rivet:assert: x(\nSELECT 1\n-- rivet:tags: a\n",
        "joints/a.py": "",
    })  # fmt: skip
    assert [(e.code, e.file, e.line) for e in project.errors] == [
        ("RVT-210", "joints/a.py", 1),
        ("RVT-203", "joints/b.sql", 1),
        ("RVT-204", "joints/b.sql", 2),
        ("RVT-209", "joints/b.sql", 3),
        ("RVT-208", "joints/b.sql", 5),
        ("RVT-205", "sinks/z.yaml", 1),
        ("RVT-205", "sinks/z.yaml", 1),
        ("RVT-206", "sinks/z.yaml", 2),
        ("RVT-203", "sinks/z.yaml", 3),
    ]


def test_a_joint_with_an_unknown_key_remains_known_to_its_readers(load: Load) -> None:
    project = load({"joints/a.yaml": YAML_SQL + "x: 1", "joints/b.sql": "-- rivet:x: 1\nSELECT 1"})
    assert [joint.name for joint in project.joints] == ["a", "b"]
    assert [error.joint for error in project.errors] == ["a", "b"]
