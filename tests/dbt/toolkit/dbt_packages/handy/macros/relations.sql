{% macro union_of(relations, columns) -%}
    {%- for relation in relations %}
    select '{{ loop.index }}' as part, {{ columns | join(', ') }} from {{ relation }}
    {%- if not loop.last %}
    union all
    {%- endif -%}
    {%- endfor -%}
{%- endmacro %}

{% macro days(since, until) -%}
    select explode(sequence(to_date('{{ since }}'), date_sub(to_date('{{ until }}'), 1))) as day
{%- endmacro %}

{% macro spread(column, values, then, prefix='') -%}
    {%- for value in values -%}
    sum(case when {{ column }} = '{{ value }}' then {{ then }} else 0 end) as {{ prefix }}{{ value | lower }}
    {%- if not loop.last %}, {% endif -%}
    {%- endfor -%}
{%- endmacro %}
