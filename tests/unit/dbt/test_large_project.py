"""A generated project of 1,200 models in layers, with macros, tests, seeds and snapshots: all of it moves."""

import json

import pytest
from support.dbt import write_dbt

from rivet_dagster.cli.main import main

LAYERS, WIDTH = 8, 150
MACROS = """{% macro cents(column) %}cast(round({{ column }} * 100) as bigint){% endmacro %}
{% macro recent(column) %}{% if is_incremental() %}where {{ column }} > 1{% endif %}{% endmacro %}
"""
CONFIGS = (
    "materialized='view'",
    "materialized='table', tags=['layered']",
    "materialized='ephemeral'",
    "materialized='incremental', incremental_strategy='append'",
    "materialized='incremental', incremental_strategy='merge', unique_key='id'",
)
SNAPSHOT = """{{% snapshot kept_{n} %}}
{{{{ config(target_schema='s', unique_key='id', strategy='check', check_cols=['cents']) }}}}
select id, cents from {{{{ ref('{read}') }}}}
{{% endsnapshot %}}
"""


def layered():
    """Return the files of the project, and how many tests it has."""
    files = {"macros/m.sql": MACROS}
    for seed in range(10):
        files[f"seeds/raw_{seed}.csv"] = "id,amount\n1,2.5\n2,3.5\n"
    described = []
    for layer in range(LAYERS):
        for n in range(WIDTH):
            name = f"l{layer}_m{n}"
            before = [f"raw_{n % 10}"] if layer == 0 else [f"l{layer - 1}_m{n}", f"l{layer - 1}_m{(n * 7 + 1) % WIDTH}"]
            cents = "{{ cents('a.amount') }}" if layer == 0 else "a.cents + {{ var('more') }}"
            joined = "" if layer == 0 else f" join {{{{ ref('{before[1]}') }}}} b on a.id = b.id"
            config = CONFIGS[(layer + n) % len(CONFIGS)]
            recent = " {{ recent('a.id') }}" if "incremental" in config else ""
            files[f"models/layer_{layer}/part_{n % 10}/{name}.sql"] = (
                f"{{{{ config({config}) }}}}\nselect a.id, {cents} as cents\n"
                f"from {{{{ ref('{before[0]}') }}}} a{joined}{recent}\n"
            )
            if n % 3 == 0:
                tests = f"[not_null, {{relationships: {{arguments: {{to: ref('{before[0]}'), field: id}}}}}}]"
                described.append(f"- {{name: {name}, columns: [{{name: id, data_tests: {tests}}}]}}\n")
    files["models/models.yml"] = "models:\n" + "".join(described)
    for n in range(20):
        files[f"snapshots/kept_{n}.sql"] = SNAPSHOT.format(n=n, read=f"l{LAYERS - 1}_m{n}")
    return files, 2 * len(described)


@pytest.mark.nightly
def test_it_moves_and_compiles(tmp_path, capsys):
    files, tests = layered()
    old = write_dbt(tmp_path / "old", files, "name: shop\nprofile: shop\nvars: {more: 1}\n")
    code = main(["import", "dbt", str(old), "--to", str(tmp_path / "new"), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    left_out = [e for part in ("models", "tests", "others") for e in report[part] if e["status"] == "left_out"]
    assert (code, left_out) == (0, [])
    assert (len(report["models"]), len(report["tests"])) == (LAYERS * WIDTH, tests)
    assert main(["-p", str(tmp_path / "new"), "compile", "--format", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["joints"]) == LAYERS * WIDTH + 10 + 20
    assert sum(len(joint["checks"]) for joint in plan["joints"]) == tests
