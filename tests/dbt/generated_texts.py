"""The texts that random dbt projects are made of: what stands in capitals is replaced."""

from __future__ import annotations

MACROS = """{% macro doubled(x) %}({{ x }} * 2){% endmacro %}

{% macro scaled(x, by=3) -%}
  {{ doubled(x) }} + {{ by }}
{%- endmacro %}

{% macro over(x, least=none) %}{{ x }} > {{ var('least') if least is none else least }}{% endmacro %}

{% macro listed(columns, prefix='') %}
  {%- for column in columns -%}
    {{ prefix }}{{ column }}{% if not loop.last %}, {% endif %}
  {%- endfor -%}
{% endmacro %}
"""
AT_MOST = """{% test at_most(model, column_name, most=10) %}
select {{ column_name }} from {{ model }} where {{ column_name }} > {{ most }}
{% endtest %}
"""
PROFILE = """{name}:
  target: dev
  outputs:
    dev:
      type: spark
      method: session
      schema: {name}
      host: NA
      threads: 1
      server_side_parameters: {settings}
"""

QUERIES = (
    "select id, grp, amount, price, day from FIRST where CONDITION\n",
    "select id, GROUP_OF as grp, AMOUNT as amount, price, day\nfrom FIRST\nwhere CONDITION\n",
    "select {{ listed(['id', 'day', 'grp']) }}, price, AMOUNT as amount from FIRST\n",
    "select min(id) as id, GROUP_OF as grp, sum(amount) as amount, max(price) as price, max(day) as day\n"
    "from FIRST\ngroup by GROUP_OF\n",
    "select\n  day, max(id) as id, max(grp) as grp, sum(price) as price,\n"
    "  {% for g in var('groups') %}\n  sum(case when grp = '{{ g }}' then amount else 0 end) as amount_{{ g }},\n"
    "  {% endfor %}\n  count(amount) as amount\nfrom FIRST -- {{ 'the days' }}\ngroup by day\n",
    "select a.id, a.grp, b.amount, {{ listed(['price', 'day'], 'a.') }}\nfrom FIRST a\n"
    "JOIN (select id, max(amount) as amount from SECOND group by id) b on a.id = b.id\n",
    "{% set columns = ['id', 'grp', 'amount', 'price', 'day'] %}\nselect {{ columns | join(', ') }} from FIRST\n"
    "union all\nselect {{ listed(columns) }} from SECOND where CONDITION\n",
    "with numbered as (\n  select *, row_number() over (partition by grp order by amount desc, id, price, day) as n\n"
    "  from FIRST\n)\nselect id, grp, amount, price, day from numbered where n <= 2\n",
    "with\nbase as (select * from FIRST),\nmost as (select grp as of, max(amount) as most from base group by grp)\n"
    "select id, grp, AMOUNT as amount, price, day\nfrom base\njoin most on grp <=> of\n"
    "where amount = most {# the greatest ones #}\n",
    "select * from FIRST\n",
    "select distinct {{ listed(['id', 'grp', 'amount', 'price', 'day']) }} from FIRST\n"
    "{%- if var('strict') %}\nwhere CONDITION\n{%- endif %}\n",
    "select id, grp, amount, price, day from FIRST\nwhere id not in (select id from SECOND where id is not null and "
    "amount > NUMBER)\n",
    "select id, grp, AMOUNT as amount, price + 0.5 as price, date_add(day, 1) as day\nfrom FIRST\n"
    "where exists (select 1 from SECOND o where o.grp = GROUP_OF)\n",
)
CONDITIONS = (
    "amount >= {{ var('least') }}",
    "{{ over('amount') }}",
    "{{ over('price', least=2) }}",
    "day >= '{{ var('since') }}'",
    "grp in ({% for g in var('groups') %}'{{ g }}'{{ ', ' if not loop.last }}{% endfor %})",
    "amount > {{ var('bonus', NUMBER) }} or grp is null",
)
AMOUNTS = (
    "{{ doubled('amount') }}",
    "{{ scaled('amount') }}",
    "{{ scaled('amount', by=NUMBER) }}",
    "case when amount > NUMBER then amount end",
    "coalesce(amount, NUMBER)",
    "cast(amount / (id - 3) as bigint)",
    "amount + length(grp)",
)
GROUPS_OF = ("grp", "upper(grp)", "nullif(grp, 'a')", "substr(grp, 1, 1)", "coalesce(grp, 'none')")
SINGULAR = (
    "select * from FIRST where amount > NUMBER * 20\n",
    "select grp, count(*) as n from FIRST group by grp having count(*) > NUMBER\n",
    "select id from FIRST where amount > NUMBER\n",
    "select id from FIRST where id not in (select id from SECOND where id is not null)\n",
)
