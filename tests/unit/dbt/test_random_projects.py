"""Random small dbt projects: everything is told once, and exactly what must be left out is."""

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.dbt import write_dbt
from support.torture import examples

from rivet_dagster.dbt.reading.project import read_dbt_project
from rivet_dagster.dbt.translation.project import translate

KINDS = {
    "view": (True, None),
    "ephemeral": (True, None),
    "table": (True, None),
    "incremental": (True, "append"),
    "tabel": (False, None),
}
"""The materializations, with whether they move, and the mode of the write strategy."""

BROKEN = ("{{ unheard_of() }}", "{% if %}", "{{ run_query('select 1') }}", "{{ ref('nowhere') }}")


@st.composite
def projects(draw):
    """Return models by name: materialization, what it reads, a macro that it calls, something broken, its tests."""
    models = {}
    for number in range(draw(st.integers(1, 8))):
        earlier = [f"m{n}" for n in range(number)]
        models[f"m{number}"] = (
            draw(st.sampled_from([*KINDS, "view", "table"])),
            draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if earlier else [],
            draw(st.sampled_from([None, "twice", "outer"])),
            draw(st.sampled_from([None, None, None, *BROKEN])),
            draw(
                st.lists(st.sampled_from(["unique", "not_null", "positive", "unknown_test"]), unique=True, max_size=3)
            ),
        )
    return models


def files_of(models):
    files = {
        "macros/m.sql": "{% macro twice(x) %}{{ x }} * 2{% endmacro %}\n"
        "{% macro outer(x) %}{{ twice(x) }}{% endmacro %}",
        "macros/t.sql": "{% test positive(model, column_name) %}select * from {{ model }} where id < 0{% endtest %}",
    }
    described = []
    for name, (kind, reads, macro, broken, tests) in models.items():
        column = f"{{{{ {macro}('id') }}}}" if macro else "id"
        tables = "".join(f"\ncross join {{{{ ref('{read}') }}}} as {read}" for read in reads)
        own = f"\n-- {broken}" if broken else ""
        files[f"models/f{len(reads)}/{name}.sql"] = (
            f"{{{{ config(materialized='{kind}') }}}}\nselect {column} as id\nfrom values (1) as t(id){tables}{own}\n"
        )
        described.append(f"- name: {name}\n  columns: [{{name: id, data_tests: [{', '.join(tests)}]}}]\n")
    return {**files, "models/models.yml": "models:\n" + "".join(described)}


def moving(models):
    """Return the names of the models that move."""
    moved = set()
    for name, (kind, reads, _, broken, _) in models.items():
        if KINDS[kind][0] and broken is None and moved.issuperset(reads):
            moved.add(name)
    return moved


@pytest.mark.slow
@settings(max_examples=examples(15, 60), deadline=None)
@given(projects())
def test_random_projects(models):
    with tempfile.TemporaryDirectory() as folder:
        root = write_dbt(Path(folder), files_of(models))
        result = translate(read_dbt_project(root), root)
    notes = {entry.name: entry for entry in result.report.models}
    assert len(result.report.models) == len(models) == len(notes)
    moved = moving(models)
    assert {name for name, entry in notes.items() if entry.status != "left_out"} == moved
    assert all(entry.reasons for entry in result.report.models if entry.status == "left_out")
    joints = {
        path.rsplit("/", 1)[-1].removesuffix(".sql"): text
        for path, text in result.files.items()
        if path[:7] == "joints/"
    }
    assert joints.keys() == moved
    checks = [(entry.joint, entry.check) for entry in result.report.tests if entry.status != "left_out"]
    assert len(set(checks)) == len(checks)
    assert len(result.report.tests) == sum(len(tests) for *_, tests in models.values())
    assert len(checks) == sum(
        len(set(tests) - {"unknown_test"}) for name, (*_, tests) in models.items() if name in moved
    )
    for name, text in joints.items():
        kind, reads, _, _, _ = models[name]
        assert ("-- rivet:catalog: warehouse" in text) == (kind in ("table", "incremental"))
        mode = re.search(r"write_strategy: \{mode: (\w+)", text)
        assert (mode and mode[1]) == KINDS[kind][1]
        assert re.findall(r"ref\('(\w+)'\)", text) == reads
        body = "".join(line for line in text.splitlines(True) if not line.startswith("-- rivet:")).strip()
        assert files_of(models)[f"models/f{len(reads)}/{name}.sql"].partition("\n")[2].strip() == body
    assert result.report.is_whole == (len(moved) == len(models) and len(checks) == len(result.report.tests))
