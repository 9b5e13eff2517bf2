"""Templates in the plan: both texts, the sink to which they refer, and errors with their lines."""

import pytest
from support.projects import compile_joints, groups, python, reasons, sink, source, sql

from rivet_dagster.compiler.diff import diff_plans
from rivet_dagster.compiler.group_query import Cte, Incremental
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.project.templating.templates import CompiledTemplate

MERGE = {"mode": "merge", "key_columns": ["id"], "watermark_column": "at"}
BY_ID = {"mode": "merge", "key_columns": ["id"]}
SCD2 = {"mode": "scd2", "key_columns": ["id"]}
RAW = source("raw", options={"schema": "id INT, at TIMESTAMP"})
NEW = """SELECT id, at FROM raw
{% if is_incremental() %}
WHERE at > {{ watermark_value }}
{% endif %}"""


def template(text: str, mode="merge", **fields) -> CompiledAssembly:
    """Compile a template upstream of one sink."""
    strategy = {"merge": MERGE if "watermark" in text else BY_ID, "scd2": SCD2}.get(mode, mode)
    return compile_joints(RAW, sql("rows", text, **fields), sink("out", "rows", write_strategy=strategy))


def texts(plan: CompiledAssembly, joint: str = "rows") -> tuple[str | None, str | None]:
    found = plan.raise_errors().joint(joint)
    return found.sql, found.sql_incremental


def cte(plan: CompiledAssembly, joint: str = "rows") -> Cte:
    """Return the CTE of the joint in its group's query."""
    (found,) = (cte for group in plan.raise_errors().fused_groups for cte in group.ctes if cte.joint == joint)
    return found


def test_both_texts_are_in_the_plan():
    plan = template(NEW)
    first, later = texts(plan)
    assert first == "SELECT id, at FROM raw"
    assert later == "SELECT id, at FROM raw\n\nWHERE at > :watermark_of_out"
    assert cte(plan) == Cte("rows", first, ("raw",), (), Incremental(later, "out", ("watermark_of_out",)))
    assert cte(plan).incremental.watermark
    (group,) = plan.fused_groups
    assert group.sql == "WITH rows AS (\nSELECT id, at FROM raw\n)\nSELECT * FROM rows".replace("rows", "`rows`")
    assert group.sql_incremental == group.sql.replace(first, later)
    assert CompiledAssembly.from_json(plan.to_json()).to_json() == plan.to_json()
    assert CompiledAssembly.from_json(plan.to_json()).joint("rows") == plan.joint("rows")


def test_a_project_without_templates_has_empty_fields():
    plan = template("SELECT '{' || id AS id FROM raw -- { { }")
    assert texts(plan) == ("SELECT '{' || id AS id FROM raw -- { { }", None)
    assert cte(plan) == Cte("rows", texts(plan)[0], ("raw",))
    assert plan.fused_groups[0].sql_incremental is None


@pytest.mark.parametrize(("text", "times"), [("SELECT {{ 1 }} AS id FROM {{ ref('raw') }}", 1), (NEW, 5)])
def test_a_template_of_one_text_is_rendered_once(monkeypatch, text, times):
    """Not for each case of conditions that it does not ask for, nor for the sink and its later runs."""
    rendered, render = [], CompiledTemplate.render
    monkeypatch.setattr(CompiledTemplate, "render", lambda self, case: (rendered.append(case), render(self, case))[1])
    template(text).raise_errors()
    assert len(rendered) == times


def test_a_landing_zone_is_named_like_a_joint():
    files = source("files", table="in", options={"landing": True, "schema": "id INT"})
    plan = compile_joints(
        files, sql("rows", "SELECT id FROM {{ landing_zone('files') }}"), sink("out", "rows", write_strategy=BY_ID)
    )
    assert texts(plan) == ("SELECT id FROM files", None)
    assert plan.joint("rows").upstream == ("files",)


def test_equal_texts_are_stored_once():
    plan = template("SELECT *, {{ run_started_at }} AS seen FROM {{ ref('raw') }} {# {{ all }} #}")
    assert texts(plan) == ("SELECT *, :run_started_at AS seen FROM raw", None)
    assert cte(plan) == Cte("rows", texts(plan)[0], ("raw",), ("run_started_at",))
    assert plan.joint("rows").upstream == ("raw",)


@pytest.mark.parametrize(
    ("mode", "later"),
    [("merge", "m"), ("append", "m"), ("scd2", "ms"), ("replace", None), ("truncate_insert", None)],
)
def test_the_mode_decides(mode, later):
    text = "SELECT 'm{% if is_scd2() %}s{% endif %}' AS id FROM {% if is_incremental() %}raw{% else %}raw r{% endif %}"
    first, incremental = texts(template(text, mode))
    scd2 = "s" if mode == "scd2" else ""
    assert first == f"SELECT 'm{scd2}' AS id FROM raw r"
    assert incremental == (later and f"SELECT '{later}' AS id FROM raw")


def test_upstream_and_fusion_follow_from_both_texts():
    once_or_twice = "FROM few{% if is_incremental() %} JOIN few f USING (id){% endif %}"
    joints = [
        RAW,
        sql("few", "SELECT id FROM raw LIMIT 3"),
        sql("rows", f"SELECT id {once_or_twice}"),
        source("late"),
        sql("more", "SELECT id FROM rows{% if is_incremental() %} WHERE id IN (SELECT id FROM late){% endif %}"),
        sink("out", "more", write_strategy=BY_ID),
    ]
    plan = compile_joints(*joints)
    assert plan.joint("more").upstream == ("late", "rows")
    assert reasons(plan) == {"few": "non_deterministic"}
    assert groups(plan)["out"] == ("late", "rows", "more", "out")
    joints[2] = sql("rows", "SELECT id FROM few")
    assert reasons(compile_joints(*joints)) == {}


def test_a_non_deterministic_later_text_is_not_evaluated_twice():
    joints = [
        RAW,
        sql("few", "SELECT id FROM raw{% if is_incremental() %} LIMIT 3{% endif %}"),
        sql("twice", "SELECT id FROM few JOIN few f USING (id)"),
        sink("out", "twice", write_strategy=BY_ID),
    ]
    assert reasons(compile_joints(*joints)) == {"few": "non_deterministic"}
    assert reasons(compile_joints(*joints[:3], sink("out", "twice"))) == {}


def test_depth_counts_the_deeper_text():
    deep = "WITH a AS (SELECT 1 AS id), b AS (SELECT 2), c AS (SELECT 3) "
    joints = [
        sql("one", "SELECT 1 AS id"),
        sql("two", "{% if is_incremental() %}" + deep + "{% endif %}SELECT id FROM one"),
        sink("out", "two", write_strategy=BY_ID),
    ]
    assert reasons(compile_joints(*joints, max_fusion_depth=4)) == {"one": "depth"}
    assert reasons(compile_joints(*joints[:2], sink("out", "two"), max_fusion_depth=4)) == {}


def test_the_sink_is_found_through_stored_joints_and_python():
    scores, functions = python("scores", "rows")
    plan = compile_joints(
        RAW, sql("rows", NEW), scores, sink("out", "scores", write_strategy=MERGE), functions=functions
    )  # fmt: skip
    assert cte(plan).incremental == Incremental(texts(plan)[1], "out", ("watermark_of_out",))
    assert plan.group("rows").sql_incremental is not None
    assert plan.group("out").sql_incremental is None


def test_one_of_several_sinks_must_be_named():
    named = NEW.replace("()", "('b')").replace("watermark_value", "watermark_value('b')")
    sinks = [sink("a", "rows", write_strategy="append"), sink("b", "rows", write_strategy=MERGE)]
    plan = compile_joints(RAW, sql("rows", named), *sinks)
    assert cte(plan).incremental == Incremental(texts(plan)[1], "b", ("watermark_of_b",))
    assert ":watermark_of_b" in texts(plan)[1]
    assert compile_joints(RAW, sql("rows", named), *reversed(sinks)).to_json() == plan.to_json()


def test_this_is_the_target_and_not_a_joint():
    plan = template(
        "SELECT id FROM raw {% if is_incremental() %}WHERE id < (SELECT max(id) FROM {{ this }}){% endif %}"
    )
    assert texts(plan)[1].endswith("WHERE id < (SELECT max(id) FROM _rivet_this_out)")
    assert plan.joint("rows").upstream == ("raw",)
    assert cte(plan).incremental == Incremental(texts(plan)[1], "out", this=True)
    assert not plan.warnings


def test_the_code_version_covers_both_texts_and_the_sink():
    def version(text, *sinks):
        plan = compile_joints(RAW, sql("rows", text), *(sinks or [sink("out", "rows", write_strategy=MERGE)]))
        return plan.raise_errors().joint("rows").code_version

    assert version(NEW) == version(NEW.replace("\n", "\n\n").replace("{% if", "{# why #}{%- if"))
    assert len({version(t) for t in (NEW, NEW.replace(">", ">="), "SELECT id, at FROM raw")}) == 3
    several = [sink(name, "rows", write_strategy=BY_ID) for name in ("a", "b")]
    about = "SELECT id FROM raw{% if is_incremental('a') %} WHERE id > 1{% endif %}"
    assert version(about, *several) != version(about.replace("'a'", "'b'"), *several)
    changed = diff_plans(template(NEW), template(NEW.replace(">", ">=")))
    assert [(one.joint, one.cause) for one in changed.changed] == [("rows", "own"), ("out", "upstream")][::-1]


def test_columns_that_differ_between_the_texts_are_a_warning():
    plan = template("SELECT id{% if not is_incremental() %}, at{% endif %} FROM raw")
    assert [(w.code, w.joint) for w in plan.warnings] == [("RVT-317", "rows")]
    assert (plan.joint("rows").schema, plan.joint("rows").schema_confidence) == (None, "partial")
    same = "SELECT id, {{ 'at' if is_incremental() else 'at' }} FROM raw"
    plan = template(same + "{% if is_incremental() %} WHERE id > 1{% endif %}")
    assert not plan.warnings
    assert [field.name for field in plan.joint("rows").schema] == ["id", "at"]


def at_line(text: str, *sinks: Joint) -> list[tuple[str, int | None, str]]:
    """Return code, line and message of the error of a template that begins on line 11 of its file."""
    place = Origin("rows.sql", 1, {"sql": 11})
    plan = compile_joints(RAW, Joint(name="rows", type="sql", sql=text, origin=place), *sinks)
    return [(e.code, e.line, e.message) for e in plan.errors]


OUT = sink("out", "rows", write_strategy=MERGE)


@pytest.mark.parametrize(
    ("text", "sinks", "expected"),
    [
        ("SELECT 1\n{% for x in y %}", [OUT], ("RVT-212", 12, "cannot be read: Unexpected end")),
        ("SELECT 1\n{% for x in range(10 ** 9) %}{% endfor %}", [OUT], ("RVT-212", 12, "takes more than")),
        ("{% for x in 'ab' %}\n{% endfor %}\nSELECT 1; SELECT 2", [OUT], ("RVT-207", 13, "more than one statement")),
        ("SELECT\n\n'{{ run_started_at }}'", [OUT], ("RVT-212", 13, "within quotes")),
        (
            "SELECT {% if is_incremental() %}\n'{{ watermark_value }}',{% endif %} 1",
            [OUT],
            ("RVT-212", 12, "within quotes"),
        ),
        (
            "SELECT {% if not is_incremental() %}\n'{{ run_started_at }}',{% endif %} 1",
            [OUT],
            ("RVT-212", 12, "within quotes"),
        ),
        ("SELECT *\nFROM {{ ref('row') }}", [OUT], ("RVT-302", 12, "ref('row') names no joint; did you mean 'raw'?")),
        ("SELECT *\nFROM {{ ref('rows') }}", [OUT], ("RVT-302", 12, "names the joint itself")),
        (
            "SELECT * FROM {{ landing_zone('raw') }}",
            [OUT],
            ("RVT-319", 11, "'raw' is a source without `landing: true`"),
        ),
        (
            "SELECT * FROM {{ landing_zone('other') }}",
            [OUT, sql("other", "SELECT 1 AS x")],
            ("RVT-319", 11, "'other' is of type sql"),
        ),
        (
            "SELECT id FROM raw{% if is_incremental() %}\nWHERE at < :partition_end{% endif %}",
            [OUT],
            ("RVT-323", 12, ":partition_end, but the joint has no `partitions`"),
        ),
        ("SELECT 1\n{% if is_incremental() %} {% endif %}", [], ("RVT-320", 12, "leads to no published table")),
        (
            "SELECT 1\n{% if is_incremental('raw') %} {% endif %}",
            [OUT],
            ("RVT-320", 12, "is_incremental('raw'), but this joint leads to out"),
        ),
        ("SELECT 1\n{% if is_scd2() %} {% endif %}", [OUT, sink("b", "rows")], ("RVT-320", 12, "leads to b, out")),
        (
            "SELECT 1 {% if is_scd2('b') %} {% endif %} {% if is_scd2('out') %} {% endif %}",
            [OUT, sink("b", "rows")],
            ("RVT-320", 11, "several tables, b, out"),
        ),
        (
            "SELECT id FROM raw\nWHERE at > {{ watermark_value }}",
            [OUT],
            ("RVT-320", 12, "also for the first run, when 'out' holds nothing"),
        ),
        (
            "SELECT id FROM raw{% if not is_incremental() %}, \n{{ this }}{% endif %}",
            [OUT],
            ("RVT-320", 12, "uses this also for the first run"),
        ),
        (
            "SELECT id FROM raw, {{ this }}",
            [sink("out", "rows")],
            ("RVT-320", 11, "every run writes 'out' anew (replace)"),
        ),
        (
            "SELECT 1\n{% if is_incremental() %} + {{ watermark_value }}{% endif %}",
            [sink("out", "rows", write_strategy="append")],
            ("RVT-320", 12, "'out' has no watermark"),
        ),
        (
            "{% if is_incremental() %}SELECT\n1; SELECT 2{% else %}SELECT 1{% endif %}",
            [OUT],
            ("RVT-207", 12, "more than one statement"),
        ),
        ("SELECT 1 {% if is_incremental() %}\n\nFORM x{% endif %}", [OUT], ("RVT-315", 13, "could not be read near")),
    ],
)
def test_errors_have_their_lines(text, sinks, expected):
    code, line, words = expected
    found = at_line(text, *sinks)
    assert [(c, n) for c, n, _ in found] == [(code, line)], found
    assert words in found[0][2]


def test_errors_of_all_joints_at_once():
    plan = compile_joints(
        RAW,
        sql("one", "SELECT {{ what }} FROM raw"),
        sql("two", "SELECT id FROM {{ ref('one') }} {% if is_incremental('nowhere') %}{% endif %}"),
        sink("out", "two", write_strategy=MERGE),
        sink("lost", "nothing"),
    )
    assert [(e.code, e.joint) for e in plan.errors] == [("RVT-302", "lost"), ("RVT-212", "one"), ("RVT-320", "two")]


def test_declared_upstream_wins():
    assert template(NEW, upstream=["raw"]).success
    assert [e.code for e in template("SELECT * FROM {{ ref('raw') }}", upstream=[]).errors] == ["RVT-313"]


def test_a_cycle_through_a_template_is_found():
    plan = compile_joints(
        sql("a", "SELECT 1 AS id{% if is_incremental() %} FROM {{ ref('b') }}{% endif %}"),
        sql("b", "SELECT id FROM a"),
        sink("out", "b", write_strategy=MERGE),
    )
    assert [e.code for e in plan.errors] == ["RVT-305"]
