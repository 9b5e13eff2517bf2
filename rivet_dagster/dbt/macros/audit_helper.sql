{# The macros of the package audit_helper that ask nothing of the warehouse, with the rows that they have on Spark. #}

{% macro compare_queries(a_query, b_query, primary_key=none, summarize=true) -%}
with a as (
{{ a_query }}
), b as (
{{ b_query }}
), all_records as (
    select *, true as in_a, true as in_b from (select * from a intersect select * from b) in_both
    union all
    select *, true as in_a, false as in_b from (select * from a except select * from b) only_in_a
    union all
    select *, false as in_a, true as in_b from (select * from b except select * from a) only_in_b
)
{% if summarize -%}
select *, round(100.0 * count / sum(count) over (), 2) as percent_of_total
from (select in_a, in_b, count(*) as count from all_records group by in_a, in_b) counted
order by in_a desc, in_b desc
{%- else -%}
select * from all_records where not (in_a and in_b) order by {{ primary_key ~ ', ' if primary_key is not none }}in_a desc, in_b desc
{%- endif %}
{%- endmacro %}

{% macro compare_row_counts(a_relation, b_relation) -%}
select '{{ a_relation }}' as relation_name, count(*) as total_records from {{ a_relation }}
union all
select '{{ b_relation }}' as relation_name, count(*) as total_records from {{ b_relation }}
{%- endmacro %}

{% macro compare_column_values(a_query, b_query, primary_key, column_to_compare) -%}
{%- set a, b = 'a_query.' ~ column_to_compare, 'b_query.' ~ column_to_compare -%}
{%- set statuses = [
    [a ~ ' = ' ~ b, '✅: perfect match'],
    [a ~ ' is null and ' ~ b ~ ' is null', '✅: both are null'],
    ['a_query.' ~ primary_key ~ ' is null', '🤷: missing from a'],
    ['b_query.' ~ primary_key ~ ' is null', '🤷: missing from b'],
    [a ~ ' is null', '🤷: value is null in a only'],
    [b ~ ' is null', '🤷: value is null in b only'],
    [a ~ ' <> ' ~ b, '🙅: values do not match'],
] -%}
with a_query as (
{{ a_query }}
), b_query as (
{{ b_query }}
), compared as (
    select
        case {% for status in statuses %}when {{ status[0] }} then {{ loop.index0 }} {% endfor %}else 7 end as match_order
    from a_query
    full outer join b_query on a_query.{{ primary_key }} = b_query.{{ primary_key }}
), counted as (
    select match_order, count(*) as count_records from compared group by match_order
)
select
    '{{ column_to_compare }}' as column_name,
    case match_order {% for status in statuses %}when {{ loop.index0 }} then '{{ status[1] }}' {% endfor %}else 'unknown' end as match_status,
    count_records,
    round(100.0 * count_records / sum(count_records) over (), 2) as percent_of_total
from counted
order by match_order
{%- endmacro %}

{% macro compare_column_values_verbose(a_query, b_query, primary_key, column_to_compare) -%}
{%- set a, b = 'a_query.' ~ column_to_compare, 'b_query.' ~ column_to_compare -%}
with a_query as (
{{ a_query }}
), b_query as (
{{ b_query }}
)
select
    coalesce(a_query.{{ primary_key }}, b_query.{{ primary_key }}) as primary_key,
    '{{ column_to_compare }}' as column_name,
    coalesce({{ a }} = {{ b }} and a_query.{{ primary_key }} is not null and b_query.{{ primary_key }} is not null, {{ a }} is null and {{ b }} is null, false) as perfect_match,
    {{ a }} is null and a_query.{{ primary_key }} is not null as null_in_a,
    {{ b }} is null and b_query.{{ primary_key }} is not null as null_in_b,
    a_query.{{ primary_key }} is null as missing_from_a,
    b_query.{{ primary_key }} is null as missing_from_b,
    coalesce(
        a_query.{{ primary_key }} is not null and b_query.{{ primary_key }} is not null
        and ({{ a }} <> {{ b }} or ({{ a }} is null) <> ({{ b }} is null)),
        false
    ) as conflicting_values
from a_query
full outer join b_query on a_query.{{ primary_key }} = b_query.{{ primary_key }}
{%- endmacro %}

{% macro keyed_rows(query, primary_key_columns, columns) -%}
{%- set parts = [] -%}
{%- for column in primary_key_columns -%}
{%- do parts.append("coalesce(cast(" ~ column ~ " as " ~ dbt.type_string() ~ "), '_dbt_audit_helper_surrogate_key_null_')") -%}
{%- if not loop.last -%}{%- do parts.append("'-'") -%}{%- endif -%}
{%- endfor -%}
select {{ columns | join(', ') }}, {{ dbt.hash(dbt.concat(parts)) }} as dbt_audit_surrogate_key
from ({{ query }}) queried
{%- endmacro %}

{% macro compare_which_query_columns_differ(a_query, b_query, primary_key_columns=[], columns=[], event_time=none) -%}
{%- if event_time -%}{{ exceptions.raise_compiler_error('with event_time it asks the warehouse for its bounds') }}{%- endif -%}
{%- set lower, compared = columns | map('lower') | list, [] -%}
{%- for column in primary_key_columns -%}{%- if column | lower not in lower -%}{%- do compared.append(column) -%}{%- endif -%}{%- endfor -%}
{%- set compared = compared + columns -%}
with a as (
{{ audit_helper.keyed_rows(a_query, primary_key_columns, compared) }}
), b as (
{{ audit_helper.keyed_rows(b_query, primary_key_columns, compared) }}
), calculated as (
    select
        {%- for column in compared %}
        {%- set ours, theirs = 'a.' ~ adapter.quote(column), 'b.' ~ adapter.quote(column) %}
        {{ dbt.bool_or(ours ~ ' <> ' ~ theirs ~ ' or (' ~ ours ~ ' is null) <> (' ~ theirs ~ ' is null)') }} as {{ column | lower }}_has_difference{{ ',' if not loop.last }}
        {%- endfor %}
    from a
    join b on a.dbt_audit_surrogate_key = b.dbt_audit_surrogate_key
)
{% for column in compared -%}
select '{{ column }}' as column_name, {{ column | lower }}_has_difference as has_difference from calculated
{{ 'union all' if not loop.last }}
{% endfor -%}
{%- endmacro %}
