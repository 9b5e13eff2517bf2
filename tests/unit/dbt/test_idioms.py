"""What dbt's users write every day moves without a change of the text, and compiles."""

import pytest
from support.dbt import model, translated

MACROS = """
{% macro cents(column) %}({{ column }} / 100){% endmacro %}
{% macro wrapped() %}coalesce({{ caller() }}, 0) as w{% endmacro %}
{% macro numbered(n) %}group by {% for i in range(1, n + 1) %}{{ i }}
{% if not loop.last %},{% endif %}{% endfor %}{% endmacro %}
"""

UNCHANGED = {
    "pivot": """{% set methods = ["bank", "card"] %}
select id, {% for m in methods -%}
    sum(case when kind = '{{ m }}' then amount end) as {{ m }}_amount {%- if not loop.last %},{% endif %}
{% endfor %}
from {{ ref('raw') }} group by 1""",
    "commas": """select {%- for c in ["id", "kind"] %} {{ c }} {{- "," if not loop.last }} {% endfor %}
from {{ ref('raw') }}""",
    "positions": """select {% for c in ['id', 'kind'] -%}
    {{ c }} as c_{{ loop.index }}_{{ loop.index0 }}_{{ loop.length }}{{ '' if loop.last else ', ' }}
{%- endfor %} from {{ ref('raw') }}""",
    "union": """{% set relations = [ref('raw'), ref('other')] %}
{% for r in relations %}select id from {{ r }} {% if not loop.last %}union all{% endif %}
{% endfor %}""",
    "appended": """{% set l = [] %}{% for i in range(3) %}{% set _ = l.append("id as c" ~ i) %}{% endfor -%}
select {{ l | join(', ') }} from {{ ref('raw') }}""",
    "items": """{% set d = {} %}{% do d.update({'a': 'id'}) -%}
select {% for k, v in d.items() %}{{ v }} as {{ k }}{% if not loop.last %},{% endif %}{% endfor %}
from {{ ref('raw') }}""",
    "names": """{% set cols = [{'name': 'id', 'n': 1}, {'name': 'kind', 'n': 2}] -%}
select {{ cols | map(attribute='name') | join(', ') }}, {{ cols | selectattr('n', 'gt', 1) | list | length }} as n
from {{ ref('raw') }}""",
    "namespace": """{% set ns = namespace(found=false) %}
{%- for i in [1, 2] %}{% if i == 2 %}{% set ns.found = true %}{% endif %}{% endfor -%} select {{ ns.found }} as f""",
    "flag": """select * from {{ ref('raw') }} {% if var('only_paid', false) %} where kind = 'paid' {% endif %}""",
    "quoted variable": """select *
from {{ ref('raw') }} where kind >= '{{ var("kind") }}' and id > {{ var('n', 0) }}""",
    "dependency in a comment": "-- depends_on: {{ ref('other') }}\nselect * from {{ ref('raw') }}",
    "formats": """select '{{ "{:02d}".format(1) }}' as a, '{{ "%s-%d" % ("x", 2) }}'
as b, '{{ "%03d" | format(7) }}' as c""",
    "filters": """select '{{ "a" | upper }}' as a, '{{ "q_r" | replace("_", " ") | title }}'
as b, {{ '5' | int + 1 }} as c""",
    "texts": """{% for x in 'a,b'.split(',') %}select '{{ x.strip().upper() }}' as a
{{ 'union all' if not loop.last }} {% endfor %}""",
    "sorted": """{% for k in {'b': 1, 'a': 2} | dictsort -%}
select '{{ k[0] }}' as a {% if not loop.last %}union all {% endif %}{% endfor %}""",
    "macros": """{% set e = cents('amount') %}select {{ e }} as a, {{ cents(column='amount') ~ ' + 1' }} as b
from {{ ref('raw') }}""",
    "macro of its own": """{% macro more(x) %}{{ x }} + 1{% endmacro %}select {{ more('id') }} as a
from {{ ref('raw') }}""",
    "grouped": "select kind, sum(amount) as s from {{ ref('raw') }} {{ numbered(1) }}",
    "call": "select {% call wrapped() %}id{% endcall %} from {{ ref('raw') }}",
    "error": """{% if var('n', 0) > 5 %}{{ exceptions.raise_compiler_error("too large") }}{% endif %}select 1 as a""",
    "comment": "{# with {{ ref('nothing') }} and {% if %} #}\nselect 1 as a",
    "several names": "{% set a, b = 1, 2 %}select {{ a }} as a, {{ b }} as b",
    "names that are not there": """{% set n = nothing | default('1') %}
select {{ n }} as a, {% if other_name is defined %}2{% else %}1{% endif %} as b""",
    "kinds of values": """{% set x = ['a'] -%}
select {{ 1 if x is iterable and x is not string and x is not mapping and x is not none else 2 }} as a""",
}


@pytest.mark.parametrize("text", UNCHANGED.values(), ids=UNCHANGED)
def test_models_that_move_unchanged(tmp_path, text):
    files = {
        "models/m.sql": text,
        "models/raw.sql": "select 1 as id, 'paid' as kind, 5 as amount",
        "models/other.sql": "select 1 as id",
        "macros/m.sql": MACROS,
    }
    result = translated(tmp_path, files, "name: shop\nvars: {kind: a}\n")
    entry = model(result, "m")
    assert (entry.status, entry.reasons) == ("unchanged", ())
    assert text.strip() in result.files["joints/m.sql"]
