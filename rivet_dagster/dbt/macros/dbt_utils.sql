{# The macros and generic tests of the package dbt_utils that ask nothing of the warehouse, with the rows that they have
   on Spark. #}

{% macro deduplicate(relation, partition_by, order_by) -%}
{#- Rows that hold a NULL are gone, as they are in dbt: they equal no row of the natural join. -#}
with numbered as (
    select candidates.*, row_number() over (partition by {{ partition_by }} order by {{ order_by }}) as rn
    from {{ relation }} as candidates
)
select distinct chosen.*
from {{ relation }} as chosen
natural join numbered
where numbered.rn = 1
{%- endmacro %}

{% macro generate_series(upper_bound) -%}
{{ dbt.generate_series(upper_bound) }}
{%- endmacro %}

{% macro generate_surrogate_key(field_list) -%}
{%- set instead_of_null = '' if var('surrogate_key_treat_nulls_as_empty_strings', false) else '_dbt_utils_surrogate_key_null_' -%}
{%- set parts = [] -%}
{%- for field in field_list -%}
{%- do parts.append("coalesce(cast(" ~ field ~ " as " ~ dbt.type_string() ~ "), '" ~ instead_of_null ~ "')") -%}
{%- if not loop.last -%}{%- do parts.append("'-'") -%}{%- endif -%}
{%- endfor -%}
{{ dbt.hash(dbt.concat(parts) if parts | length > 1 else parts[0]) }}
{%- endmacro %}

{% macro get_url_host(field) -%}
{%- set bare = dbt.replace(dbt.replace(dbt.replace(field, "'android-app://'", "''"), "'http://'", "''"), "'https://'", "''") -%}
{{ dbt.safe_cast(dbt.split_part(dbt.split_part(bare, "'/'", 1), "'?'", 1), dbt.type_string()) }}
{%- endmacro %}

{% macro get_url_parameter(field, url_parameter) -%}
nullif({{ dbt.split_part(dbt.split_part(field, "'" ~ url_parameter ~ "='", 2), "'&'", 1) }}, '')
{%- endmacro %}

{% macro get_url_path(field) -%}
{%- set bare = dbt.replace(dbt.replace(field, "'http://'", "''"), "'https://'", "''") -%}
{%- set slash = 'coalesce(nullif(' ~ dbt.position("'/'", bare) ~ ', 0), ' ~ dbt.position("'?'", bare) ~ ' - 1)' -%}
{{ dbt.safe_cast(dbt.split_part(dbt.right(bare, dbt.length(bare) ~ ' - ' ~ slash), "'?'", 1), dbt.type_string()) }}
{%- endmacro %}

{% macro group_by(n) -%}
group by {% for number in range(1, n + 1) %}{{ number }}{{ ',' if not loop.last }}{% endfor %}
{%- endmacro %}

{% macro haversine_distance(lat1, lon1, lat2, lon2, unit='mi') -%}
{%- if unit not in ('mi', 'km') -%}{{ exceptions.raise_compiler_error("unit must be 'mi' or 'km'") }}{%- endif -%}
2 * 3961 * asin(sqrt(
    power(sin(radians(({{ lat2 }} - {{ lat1 }}) / 2)), 2)
    + cos(radians({{ lat1 }})) * cos(radians({{ lat2 }})) * power(sin(radians(({{ lon2 }} - {{ lon1 }}) / 2)), 2)
)) * {{ 1 if unit == 'mi' else 1.60934 }}
{%- endmacro %}

{% macro log_info(message) -%}
{%- endmacro %}

{% macro pivot(column, values, alias=true, agg='sum', cmp='=', prefix='', suffix='', then_value=1, else_value=0, quote_identifiers=true, distinct=false) -%}
{%- for value in values %}
{{ agg }}({{ 'distinct ' if distinct }}case when {{ column }} {{ cmp }} '{{ dbt.escape_single_quotes(value) }}' then {{ then_value }} else {{ else_value }} end)
{%- if alias %} as {{ adapter.quote(prefix ~ value ~ suffix) if quote_identifiers else dbt_utils.slugify(prefix ~ value ~ suffix) }}{% endif -%}
{{ ',' if not loop.last }}
{%- endfor -%}
{%- endmacro %}

{% macro safe_add(field_list) -%}
{% for field in field_list %}coalesce({{ field }}, 0){{ ' + ' if not loop.last }}{% endfor %}
{%- endmacro %}

{% macro safe_divide(numerator, denominator) -%}
( {{ numerator }} ) / nullif( ( {{ denominator }} ), 0)
{%- endmacro %}

{% macro safe_subtract(field_list) -%}
{% for field in field_list %}coalesce({{ field }}, 0){{ ' - ' if not loop.last }}{% endfor %}
{%- endmacro %}

{% macro width_bucket(expr, min_value, max_value, num_buckets) -%}
{%- set size = '((' ~ max_value ~ ' - ' ~ min_value ~ ') / ' ~ num_buckets ~ ')' -%}
(case when mod({{ dbt.safe_cast(expr, dbt.type_numeric()) }}, {{ dbt.safe_cast(size, dbt.type_numeric()) }}) = 0 then 1 else 0 end)
+ least(ceil(({{ expr }} - {{ min_value }}) / {{ size }}), {{ num_buckets }} + 1)
{%- endmacro %}

{% macro compared_row_counts(model, compare_model, group_by_columns, difference, name) -%}
{#- A constant is among what is grouped by, so a table without rows has no group. -#}
{%- set groups = ['joined_by'] + group_by_columns -%}
with ours as (
    select {% for column in group_by_columns %}{{ column }}, {% endfor %}1 as joined_by, count(*) as our_count
    from {{ model }}
    group by {{ groups | join(', ') }}
), theirs as (
    select {% for column in group_by_columns %}{{ column }}, {% endfor %}1 as joined_by, count(*) as their_count
    from {{ compare_model }}
    group by {{ groups | join(', ') }}
)
select our_count, their_count, {{ difference }} as {{ name }}
from ours
full join theirs on {% for column in groups %}ours.{{ column }} = theirs.{{ column }}{{ ' and ' if not loop.last }}{% endfor %}
{%- endmacro %}

{% test equal_rowcount(model, compare_model, group_by_columns=[]) %}
{{ config(fail_calc='sum(coalesce(diff_count, 0))') }}
{{ dbt_utils.compared_row_counts(model, compare_model, group_by_columns, 'abs(our_count - their_count)', 'diff_count') }}
{% endtest %}

{% test fewer_rows_than(model, compare_model, group_by_columns=[]) %}
{{ config(fail_calc='sum(coalesce(row_count_delta, 0))') }}
{%- set difference = 'case when our_count > their_count then our_count - their_count when our_count = their_count then 1 else 0 end' -%}
{{ dbt_utils.compared_row_counts(model, compare_model, group_by_columns, difference, 'row_count_delta') }}
{% endtest %}

{% test equality(model, compare_model, compare_columns=none, exclude_columns=none, precision=none) %}
{{ config(fail_calc="count(*) + coalesce(abs(sum(case when which_diff = 'a_minus_b' then 1 else 0 end) - sum(case when which_diff = 'b_minus_a' then 1 else 0 end)), 0)") }}
{%- if not compare_columns or precision -%}
{{ exceptions.raise_compiler_error('without compare_columns, or with precision, it asks the warehouse for the columns') }}
{%- endif -%}
{%- set columns = compare_columns | join(', ') -%}
select 'a_minus_b' as which_diff, a_minus_b.*
from (select {{ columns }} from {{ model }} except select {{ columns }} from {{ compare_model }}) a_minus_b
union all
select 'b_minus_a' as which_diff, b_minus_a.*
from (select {{ columns }} from {{ compare_model }} except select {{ columns }} from {{ model }}) b_minus_a
{% endtest %}

{% test expression_is_true(model, expression, column_name=none) %}
select * from {{ model }} where not({{ column_name ~ ' ' if column_name is not none }}{{ expression }})
{% endtest %}

{% test accepted_range(model, column_name, min_value=none, max_value=none, inclusive=true) %}
{%- set equal = '=' if inclusive else '' -%}
select * from {{ model }} where not(1 = 1
{%- if min_value is not none %} and {{ column_name }} >{{ equal }} {{ min_value }}{% endif -%}
{%- if max_value is not none %} and {{ column_name }} <{{ equal }} {{ max_value }}{% endif -%}
)
{% endtest %}

{% test not_empty_string(model, column_name, trim_whitespace=true) %}
select * from {{ model }} where not({{ 'trim(' ~ column_name ~ ')' if trim_whitespace else column_name }} <> '')
{% endtest %}

{% test not_accepted_values(model, column_name, values, quote=true) %}
select distinct {{ column_name }} as value_field
from {{ model }}
where {{ column_name }} in ({% for value in values %}{{ "'" ~ value ~ "'" if quote else value }}{{ ', ' if not loop.last }}{% endfor %})
{% endtest %}

{% test recency(model, field, datepart, interval, ignore_time_component=false, group_by_columns=[]) %}
{%- set kind = 'date' if ignore_time_component else dbt.type_timestamp() -%}
{%- set threshold = 'cast(' ~ dbt.dateadd(datepart, interval * -1, dbt.current_timestamp()) ~ ' as ' ~ kind ~ ')' -%}
select *
from (
    select {% for column in group_by_columns %}{{ column }}, {% endfor %}{{ 'cast(max(' ~ field ~ ') as date)' if ignore_time_component else 'max(' ~ field ~ ')' }} as most_recent
    from {{ model }}
    {{ 'group by ' ~ group_by_columns | join(', ') if group_by_columns }}
) newest
where most_recent < {{ threshold }}
{% endtest %}

{% test at_least_one(model, column_name, group_by_columns=[]) %}
{%- set groups = [] -%}
{%- for column in group_by_columns -%}{%- if column != column_name -%}{%- do groups.append(column) -%}{%- endif -%}{%- endfor -%}
select {% for column in groups %}{{ column }}, {% endfor %}count({{ column_name }}) as number_of_values
from {{ model }}
{{ 'group by ' ~ groups | join(', ') if groups }}
having count({{ column_name }}) = 0
{% endtest %}

{% test not_constant(model, column_name, group_by_columns=[]) %}
select {% for column in group_by_columns %}{{ column }}, {% endfor %}count(distinct {{ column_name }}) as number_of_values
from {{ model }}
{{ 'group by ' ~ group_by_columns | join(', ') if group_by_columns }}
having count(distinct {{ column_name }}) = 1
{% endtest %}

{% test not_null_proportion(model, column_name, at_least, at_most=1.0, group_by_columns=[]) %}
select *
from (
    select {% for column in group_by_columns %}{{ column }}, {% endfor %}sum(case when {{ column_name }} is null then 0 else 1 end) / cast(count(*) as {{ dbt.type_numeric() }}) as not_null_proportion
    from {{ model }}
    {{ 'group by ' ~ group_by_columns | join(', ') if group_by_columns }}
) proportions
where not_null_proportion < {{ at_least }} or not_null_proportion > {{ at_most }}
{% endtest %}

{% test cardinality_equality(model, column_name, to, field) %}
with ours as (
    select {{ column_name }} as value_field, count(*) as num_rows from {{ model }} group by {{ column_name }}
), theirs as (
    select {{ field }} as value_field, count(*) as num_rows from {{ to }} group by {{ field }}
)
select * from (select * from ours except select * from theirs) only_ours
union all
select * from (select * from theirs except select * from ours) only_theirs
{% endtest %}

{% test relationships_where(model, column_name, to, field, from_condition='1=1', to_condition='1=1') %}
select child.id
from (select {{ column_name }} as id from {{ model }} where {{ column_name }} is not null and {{ from_condition }}) child
left join (select {{ field }} as id from {{ to }} where {{ field }} is not null and {{ to_condition }}) parent on child.id = parent.id
where parent.id is null
{% endtest %}

{% test unique_combination_of_columns(model, combination_of_columns, quote_columns=false) %}
{%- set columns = [] -%}
{%- for column in combination_of_columns -%}{%- do columns.append(adapter.quote(column) if quote_columns else column) -%}{%- endfor -%}
select {{ columns | join(', ') }}
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1
{% endtest %}

{% test sequential_values(model, column_name, interval=1, datepart=none, group_by_columns=[]) %}
select *
from (
    select {{ column_name }} as value_field, lag({{ column_name }}) over (
        {{- 'partition by ' ~ group_by_columns | join(', ') ~ ' ' if group_by_columns }}order by {{ column_name }}) as previous_value
    from {{ model }}
) windowed
{%- if datepart %}
where not(cast(value_field as {{ dbt.type_timestamp() }}) = cast({{ dbt.dateadd(datepart, interval, 'previous_value') }} as {{ dbt.type_timestamp() }}))
{%- else %}
where not(value_field = previous_value + {{ interval }})
{%- endif %}
{% endtest %}

{% test mutually_exclusive_ranges(model, lower_bound_column, upper_bound_column, partition_by=none, gaps='allowed', zero_length_range_allowed=false) %}
{%- set operators = {'not_allowed': '=', 'allowed': '<=', 'required': '<'} -%}
{%- if gaps not in operators -%}{{ exceptions.raise_compiler_error("gaps must be 'not_allowed', 'allowed' or 'required'") }}{%- endif -%}
{%- set partition = 'partition by ' ~ partition_by ~ ' ' if partition_by else '' -%}
select *
from (
    select
        {{ lower_bound_column }} as lower_bound,
        {{ upper_bound_column }} as upper_bound,
        lead({{ lower_bound_column }}) over ({{ partition }}order by {{ lower_bound_column }}, {{ upper_bound_column }}) as next_lower_bound,
        row_number() over ({{ partition }}order by {{ lower_bound_column }} desc, {{ upper_bound_column }} desc) = 1 as is_last_record
    from {{ model }}
) ranges
where not(
    coalesce(lower_bound {{ '<=' if zero_length_range_allowed else '<' }} upper_bound, false)
    and coalesce(upper_bound {{ operators[gaps] }} next_lower_bound, is_last_record, false)
)
{% endtest %}
