{# The generic tests of the package dbt_expectations, with the verdicts that they have on Spark. Those of columns read the
   names and types of a table in the query itself, where dbt asks the warehouse first. #}

{% macro rows_that_violate(model, condition, row_condition=none) -%}
select * from {{ model }} where not(({{ condition }}){{ ' or not (' ~ row_condition ~ ')' if row_condition }})
{%- endmacro %}

{% macro groups_that_violate(model, expression, condition, group_by=none, row_condition=none) -%}
{%- set columns = group_by or [] -%}
select *
from (
    select {% for column in columns %}{{ column }} as col_{{ loop.index }}, {% endfor %}{{ expression }} as expression
    from {{ model }}
    {{ 'where ' ~ row_condition if row_condition }}
    {{ 'group by ' ~ columns | join(', ') if columns }}
) measured
where not({{ condition }})
{%- endmacro %}

{% macro bounds_hold(expression, min_value, max_value, strictly) -%}
{%- if min_value is none and max_value is none -%}
{{ exceptions.raise_compiler_error('it needs a min_value or a max_value') }}
{%- endif -%}
{%- set equal = '' if strictly else '=' -%}
{%- if min_value is not none -%}{{ expression }} >{{ equal }} {{ min_value }}{%- endif -%}
{{ ' and ' if min_value is not none and max_value is not none }}
{%- if max_value is not none -%}{{ expression }} <{{ equal }} {{ max_value }}{%- endif -%}
{%- endmacro %}

{% macro groups_out_of_bounds(model, expression, min_value, max_value, group_by, row_condition, strictly) -%}
{{ dbt_expectations.groups_that_violate(model, expression, dbt_expectations.bounds_hold('expression', min_value, max_value, strictly), group_by, row_condition) }}
{%- endmacro %}

{% macro literal_of(value, quote_values) -%}
{{ "'" ~ value ~ "'" if quote_values else value }}
{%- endmacro %}

{% macro equals_any(column_name, value_set, quote_values) -%}
{%- for value in value_set -%}{{ column_name }} = {{ dbt_expectations.literal_of(value, quote_values) }}{{ ' or ' if not loop.last }}{%- endfor -%}
{%- endmacro %}

{% macro set_rows(value_set, quote_values) -%}
{%- for value in value_set -%}select {{ dbt_expectations.literal_of(value, quote_values) }} as set_value{{ ' union all ' if not loop.last }}{%- endfor -%}
{%- endmacro %}

{% macro joined_by(conditions, match_on) -%}
{{ conditions | join(' and ' if match_on == 'all' else ' or ') }}
{%- endmacro %}

{% macro quoted_columns(column_list, quote_columns) -%}
{%- set columns = [] -%}
{%- for column in column_list -%}{%- do columns.append(adapter.quote(column) if quote_columns else column) -%}{%- endfor -%}
{{ return(columns) }}
{%- endmacro %}

{% macro ignored_rows(columns, ignore_row_if, row_condition) -%}
{#- Return which rows of several columns count. -#}
{%- set present = [] -%}
{%- for column in columns -%}{%- do present.append(column ~ ' is not null') -%}{%- endfor -%}
{%- set operators = {'all_values_are_missing': ' or ', 'any_value_is_missing': ' and '} -%}
{%- set conditions = ['(' ~ row_condition ~ ')'] if row_condition else [] -%}
{%- if ignore_row_if in operators -%}{%- do conditions.append('(' ~ present | join(operators[ignore_row_if]) ~ ')') -%}{%- endif -%}
{{ conditions | join(' and ') }}
{%- endmacro %}

{# Tables #}

{% test expression_is_true(model, expression, test_condition='= true', group_by_columns=none, row_condition=none) %}
{{ dbt_expectations.groups_that_violate(model, expression, 'expression ' ~ test_condition, group_by_columns, row_condition) }}
{% endtest %}

{% test expression_between(model, expression, min_value=none, max_value=none, group_by_columns=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.groups_out_of_bounds(model, expression, min_value, max_value, group_by_columns, row_condition, strictly) }}
{% endtest %}

{% test expect_table_row_count_to_be_between(model, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.groups_out_of_bounds(model, 'count(*)', min_value, max_value, group_by, row_condition, strictly) }}
{% endtest %}

{% test expect_table_row_count_to_equal(model, value, group_by=none, row_condition=none) %}
{{ dbt_expectations.groups_that_violate(model, 'count(*)', 'expression = ' ~ value, group_by, row_condition) }}
{% endtest %}

{% macro measured_groups(model, expression, columns, row_condition) -%}
select {% for column in columns %}{{ column }} as col_{{ loop.index }}, {% endfor %}{{ expression }} as expression
    from {{ model }}
    {{ 'where ' ~ row_condition if row_condition }}
    {{ 'group by ' ~ columns | join(', ') if columns }}
{%- endmacro %}

{% macro differing_groups(model, expression, compare_model, compare_expression, group_by, compare_group_by, row_condition, compare_row_condition, tolerance, tolerance_percent) -%}
{%- set columns = group_by or [] -%}
{%- set difference = 'abs(coalesce(ours.expression, 0) - coalesce(theirs.expression, 0))' -%}
with ours as (
    {{ dbt_expectations.measured_groups(model, expression, columns, row_condition) }}
), theirs as (
    {{ dbt_expectations.measured_groups(compare_model or model, compare_expression or expression, compare_group_by or columns, compare_row_condition or row_condition) }}
)
select ours.expression, theirs.expression as compare_expression, {{ difference }} as expression_difference
from ours
{% if columns -%}
full outer join theirs on {% for column in columns %}ours.col_{{ loop.index }} = theirs.col_{{ loop.index }}{{ ' and ' if not loop.last }}{% endfor %}
{%- else -%}
cross join theirs
{%- endif %}
where {{ difference }}{{ ' / nullif(ours.expression * 1.0, 0) > ' ~ tolerance_percent if tolerance_percent else ' > ' ~ tolerance }}
{%- endmacro %}

{% test equal_expression(model, expression, compare_model=none, compare_expression=none, group_by=none, compare_group_by=none, row_condition=none, compare_row_condition=none, tolerance=0.0, tolerance_percent=none, return_difference=false) %}
{{ dbt_expectations.differing_groups(model, expression, compare_model, compare_expression, group_by, compare_group_by, row_condition, compare_row_condition, tolerance, tolerance_percent) }}
{% endtest %}

{% test expect_table_aggregation_to_equal_other_table(model, expression, compare_model, compare_expression=none, group_by=none, compare_group_by=none, row_condition=none, compare_row_condition=none, tolerance=0.0, tolerance_percent=none) %}
{{ dbt_expectations.differing_groups(model, expression, compare_model, compare_expression, group_by, compare_group_by, row_condition, compare_row_condition, tolerance, tolerance_percent) }}
{% endtest %}

{% test expect_table_row_count_to_equal_other_table(model, compare_model, group_by=none, compare_group_by=none, factor=1, row_condition=none, compare_row_condition=none) %}
{{ dbt_expectations.differing_groups(model, 'count(*)', compare_model, 'count(*) * ' ~ factor, group_by, compare_group_by, row_condition, compare_row_condition, 0.0, none) }}
{% endtest %}

{% test expect_table_row_count_to_equal_other_table_times_factor(model, compare_model, factor, group_by=none, compare_group_by=none, row_condition=none, compare_row_condition=none) %}
{{ dbt_expectations.differing_groups(model, 'count(*)', compare_model, 'count(*) * ' ~ factor, group_by, compare_group_by, row_condition, compare_row_condition, 0.0, none) }}
{% endtest %}

{% macro recent_enough(datepart, interval) -%}
cast({{ dbt.dateadd(datepart, interval * -1, dbt_date.now()) }} as {{ dbt.type_timestamp() }})
{%- endmacro %}

{% test expect_row_values_to_have_recent_data(model, column_name, datepart, interval, row_condition=none) %}
{%- set time = 'cast(' ~ column_name ~ ' as ' ~ dbt.type_timestamp() ~ ')' -%}
select *
from (
    select max({{ time }}) as max_timestamp
    from {{ model }}
    where {{ time }} <= {{ dbt_date.now() }}{{ ' and ' ~ row_condition if row_condition }}
) newest
where coalesce(max_timestamp, cast('1970-01-01' as {{ dbt.type_timestamp() }})) < {{ dbt_expectations.recent_enough(datepart, interval) }}
{% endtest %}

{% test expect_grouped_row_values_to_have_recent_data(model, group_by, timestamp_column, datepart, interval, row_condition=none) %}
{#- The package joins the groups by equality, so those of a NULL are not judged. #}
{%- set time = 'cast(' ~ timestamp_column ~ ' as ' ~ dbt.type_timestamp() ~ ')' -%}
select *
from (
    select {{ group_by | join(', ') }}, max({{ time }}) as latest_timestamp
    from {{ model }}
    where {{ time }} <= {{ dbt_date.now() }}{{ ' and ' ~ row_condition if row_condition }}
    group by {{ group_by | join(', ') }}
) newest
where latest_timestamp < {{ dbt_expectations.recent_enough(datepart, interval) }}
{%- for column in group_by %} and {{ column }} is not null{% endfor %}
{% endtest %}

{# Columns: a row of a table without rows has the names of its columns, too. #}

{% macro names_of_columns(model, transform) -%}
select transform(json_object_keys(to_json(struct(listed.*), map('ignoreNullFields', 'false'))), name -> {{ transform }}(name)) as names
    from (select 1 as one) one_row
    left join (select * from {{ model }} limit 1) listed on true
{%- endmacro %}

{% macro array_of(column_list, transform) -%}
array({% for column in column_list %}{{ transform }}('{{ column }}'){{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}

{% macro columns_that_violate(model, transform, condition) -%}
select * from ({{ dbt_expectations.names_of_columns(model, transform) }}) columns_of_table where not({{ condition }})
{%- endmacro %}

{% test expect_column_to_exist(model, column_name, column_index=none, transform='upper') %}
{%- set position = 'array_position(names, ' ~ transform ~ "('" ~ column_name ~ "'))" -%}
{%- set wanted = ' and ' ~ position ~ ' = ' ~ ([column_index, 1] | max) if column_index else '' -%}
{{ dbt_expectations.columns_that_violate(model, transform, position ~ ' > 0' ~ wanted) }}
{% endtest %}

{% test expect_table_column_count_to_equal(model, value) %}
{{ dbt_expectations.columns_that_violate(model, 'upper', 'size(names) = ' ~ value) }}
{% endtest %}

{% test expect_table_column_count_to_be_between(model, min_value=none, max_value=none) %}
{{ dbt_expectations.columns_that_violate(model, 'upper', dbt_expectations.bounds_hold('size(names)', min_value, max_value, false)) }}
{% endtest %}

{% test expect_table_column_count_to_equal_other_table(model, compare_model) %}
select ours.names, theirs.names as compare_names
from ({{ dbt_expectations.names_of_columns(model, 'upper') }}) ours
cross join ({{ dbt_expectations.names_of_columns(compare_model, 'upper') }}) theirs
where size(ours.names) <> size(theirs.names)
{% endtest %}

{% test expect_table_columns_to_contain_set(model, column_list, transform='upper') %}
{{ dbt_expectations.columns_that_violate(model, transform, 'size(array_except(' ~ dbt_expectations.array_of(column_list, transform) ~ ', names)) = 0') }}
{% endtest %}

{% test expect_table_columns_to_not_contain_set(model, column_list, transform='upper') %}
{{ dbt_expectations.columns_that_violate(model, transform, 'size(array_intersect(names, ' ~ dbt_expectations.array_of(column_list, transform) ~ ')) = 0') }}
{% endtest %}

{% test expect_table_columns_to_match_set(model, column_list, transform='upper') %}
{%- set given = dbt_expectations.array_of(column_list, transform) -%}
{{ dbt_expectations.columns_that_violate(model, transform, 'size(array_except(' ~ given ~ ', names)) = 0 and size(array_except(names, ' ~ given ~ ')) = 0') }}
{% endtest %}

{% test expect_table_columns_to_match_ordered_list(model, column_list, transform='upper') %}
{{ dbt_expectations.columns_that_violate(model, transform, 'names = ' ~ dbt_expectations.array_of(column_list, transform)) }}
{% endtest %}

{% test expect_column_values_to_be_of_type(model, column_name, column_type) %}
{{ dbt_expectations.types_that_violate(model, column_name, [column_type]) }}
{% endtest %}

{% test expect_column_values_to_be_in_type_list(model, column_name, column_type_list) %}
{{ dbt_expectations.types_that_violate(model, column_name, column_type_list) }}
{% endtest %}

{% macro types_that_violate(model, column_name, column_type_list) -%}
select *
from (
    select upper(typeof(listed.typed)) as column_type
    from (select 1 as one) one_row
    left join (select {{ column_name }} as typed from {{ model }} limit 1) listed on true
) typed
where column_type not in ({% for type in column_type_list %}'{{ type | upper }}'{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}

{# Values of a column #}

{% test expect_column_values_to_be_null(model, column_name, row_condition=none) %}
{{ dbt_expectations.rows_that_violate(model, column_name ~ ' is null', row_condition) }}
{% endtest %}

{% test expect_column_values_to_not_be_null(model, column_name, row_condition=none) %}
{{ dbt_expectations.rows_that_violate(model, column_name ~ ' is not null', row_condition) }}
{% endtest %}

{% test expect_column_values_to_be_unique(model, column_name, row_condition=none) %}
{{ dbt_expectations.repeated_values(model, [column_name], 'all_values_are_missing', row_condition) }}
{% endtest %}

{% test expect_column_values_to_have_consistent_casing(model, column_name, display_inconsistent_columns=false) %}
{%- if display_inconsistent_columns %}
select lower(distinct_value) as inconsistent_columns, count(distinct_value) as set_count_case_insensitive
from (select distinct {{ column_name }} as distinct_value from {{ model }}) distinct_values
group by lower(distinct_value)
having count(distinct_value) > 1
{%- else %}
{#- A NULL is one of the values, and none of those in lower case. #}
select *
from (
    select count(*) as set_count, count(distinct lower(distinct_value)) as set_count_case_insensitive
    from (select distinct {{ column_name }} as distinct_value from {{ model }}) distinct_values
) counted
where set_count <> set_count_case_insensitive
{%- endif %}
{% endtest %}

{% test expect_column_values_to_be_in_set(model, column_name, value_set, quote_values=true, row_condition=none) %}
{#- A NULL is in no set. #}
{{ dbt_expectations.rows_that_violate(model, 'coalesce(' ~ dbt_expectations.equals_any(column_name, value_set, quote_values) ~ ', false)', row_condition) }}
{% endtest %}

{% test expect_column_values_to_not_be_in_set(model, column_name, value_set, quote_values=true, row_condition=none) %}
{{ dbt_expectations.rows_that_violate(model, 'not (' ~ dbt_expectations.equals_any(column_name, value_set, quote_values) ~ ')', row_condition) }}
{% endtest %}

{% test expect_column_values_to_be_between(model, column_name, min_value=none, max_value=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.rows_that_violate(model, dbt_expectations.bounds_hold(column_name, min_value, max_value, strictly), row_condition) }}
{% endtest %}

{% test expect_column_values_to_be_increasing(model, column_name, sort_column=none, strictly=true, row_condition=none, group_by=none, step=none) %}
{{ dbt_expectations.steps_that_violate(model, column_name, sort_column, '>' ~ ('' if strictly else '='), row_condition, group_by, 'value_field - value_before = ' ~ step if step else none) }}
{% endtest %}

{% test expect_column_values_to_be_decreasing(model, column_name, sort_column=none, strictly=true, row_condition=none, group_by=none, step=none) %}
{{ dbt_expectations.steps_that_violate(model, column_name, sort_column, '<' ~ ('' if strictly else '='), row_condition, group_by, 'value_before - value_field = ' ~ step if step else none) }}
{% endtest %}

{% macro steps_that_violate(model, column_name, sort_column, operator, row_condition, group_by, step) -%}
select *
from (
    select {{ column_name }} as value_field, lag({{ column_name }}) over (
        {{- 'partition by ' ~ group_by | join(', ') ~ ' ' if group_by }}order by {{ sort_column or column_name }}) as value_before
    from {{ model }}
    {{ 'where ' ~ row_condition if row_condition }}
) steps
where value_before is not null and not(value_field {{ operator }} value_before{{ ' and ' ~ step if step }})
{%- endmacro %}

{# Texts #}

{% macro found_by(column_name, regex) -%}
length(regexp_extract({{ column_name }}, '{{ regex }}', 0))
{%- endmacro %}

{% test expect_column_value_lengths_to_be_between(model, column_name, min_value=none, max_value=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.rows_that_violate(model, dbt_expectations.bounds_hold(dbt.length(column_name), min_value, max_value, strictly), row_condition) }}
{% endtest %}

{% test expect_column_value_lengths_to_equal(model, column_name, value, row_condition=none) %}
{{ dbt_expectations.rows_that_violate(model, dbt.length(column_name) ~ ' = ' ~ value, row_condition) }}
{% endtest %}

{% test expect_column_values_to_match_regex(model, column_name, regex, row_condition=none, is_raw=false, flags='') %}
{{ dbt_expectations.rows_that_violate(model, dbt_expectations.found_by(column_name, regex) ~ ' > 0', row_condition) }}
{% endtest %}

{% test expect_column_values_to_not_match_regex(model, column_name, regex, row_condition=none, is_raw=false, flags='') %}
{{ dbt_expectations.rows_that_violate(model, dbt_expectations.found_by(column_name, regex) ~ ' = 0', row_condition) }}
{% endtest %}

{% test expect_column_values_to_match_regex_list(model, column_name, regex_list, match_on='any', row_condition=none, is_raw=false, flags='') %}
{%- set conditions = [] -%}
{%- for regex in regex_list -%}{%- do conditions.append(dbt_expectations.found_by(column_name, regex) ~ ' > 0') -%}{%- endfor -%}
{{ dbt_expectations.rows_that_violate(model, dbt_expectations.joined_by(conditions, match_on), row_condition) }}
{% endtest %}

{% test expect_column_values_to_not_match_regex_list(model, column_name, regex_list, match_on='any', row_condition=none, is_raw=false, flags='') %}
{%- set conditions = [] -%}
{%- for regex in regex_list -%}{%- do conditions.append(dbt_expectations.found_by(column_name, regex) ~ ' = 0') -%}{%- endfor -%}
{{ dbt_expectations.rows_that_violate(model, dbt_expectations.joined_by(conditions, match_on), row_condition) }}
{% endtest %}

{% test expect_column_values_to_match_like_pattern(model, column_name, like_pattern, row_condition=none) %}
{{ dbt_expectations.rows_that_violate(model, column_name ~ " like '" ~ like_pattern ~ "'", row_condition) }}
{% endtest %}

{% test expect_column_values_to_not_match_like_pattern(model, column_name, like_pattern, row_condition=none) %}
{{ dbt_expectations.rows_that_violate(model, column_name ~ " not like '" ~ like_pattern ~ "'", row_condition) }}
{% endtest %}

{% test expect_column_values_to_match_like_pattern_list(model, column_name, like_pattern_list, match_on='any', row_condition=none) %}
{%- set conditions = [] -%}
{%- for pattern in like_pattern_list -%}{%- do conditions.append(column_name ~ " like '" ~ pattern ~ "'") -%}{%- endfor -%}
{{ dbt_expectations.rows_that_violate(model, dbt_expectations.joined_by(conditions, match_on), row_condition) }}
{% endtest %}

{% test expect_column_values_to_not_match_like_pattern_list(model, column_name, like_pattern_list, match_on='any', row_condition=none) %}
{%- set conditions = [] -%}
{%- for pattern in like_pattern_list -%}{%- do conditions.append(column_name ~ " not like '" ~ pattern ~ "'") -%}{%- endfor -%}
{{ dbt_expectations.rows_that_violate(model, dbt_expectations.joined_by(conditions, match_on), row_condition) }}
{% endtest %}

{# Aggregates #}

{% test expect_column_distinct_count_to_equal(model, column_name, value, quote_values=false, group_by=none, row_condition=none) %}
{{ dbt_expectations.groups_that_violate(model, 'count(distinct ' ~ column_name ~ ')', 'expression = ' ~ value, group_by, row_condition) }}
{% endtest %}

{% test expect_column_distinct_count_to_be_greater_than(model, column_name, value, quote_values=false, group_by=none, row_condition=none) %}
{{ dbt_expectations.groups_that_violate(model, 'count(distinct ' ~ column_name ~ ')', 'expression > ' ~ value, group_by, row_condition) }}
{% endtest %}

{% test expect_column_distinct_count_to_be_less_than(model, column_name, value, quote_values=false, group_by=none, row_condition=none) %}
{{ dbt_expectations.groups_that_violate(model, 'count(distinct ' ~ column_name ~ ')', 'expression < ' ~ value, group_by, row_condition) }}
{% endtest %}

{% test expect_column_distinct_count_to_equal_other_table(model, column_name, compare_model=none, compare_column_name=none, row_condition=none, compare_row_condition=none) %}
{%- set theirs = 'count(distinct ' ~ (compare_column_name or column_name) ~ ')' -%}
{{ dbt_expectations.differing_groups(model, 'count(distinct ' ~ column_name ~ ')', compare_model, theirs, none, none, row_condition, compare_row_condition, 0.0, none) }}
{% endtest %}

{% test expect_column_distinct_values_to_be_in_set(model, column_name, value_set, quote_values=true, row_condition=none) %}
select distinct {{ column_name }} as value_field
from {{ model }}
where {{ '(' ~ row_condition ~ ') and ' if row_condition }}not coalesce({{ dbt_expectations.equals_any(column_name, value_set, quote_values) }}, false)
{% endtest %}

{% test expect_column_distinct_values_to_contain_set(model, column_name, value_set, quote_values=true, row_condition=none) %}
select distinct set_value
from ({{ dbt_expectations.set_rows(value_set, quote_values) }}) wanted
left join (select {{ column_name }} as value_field from {{ model }}{{ ' where ' ~ row_condition if row_condition }}) present on set_value = value_field
where value_field is null
{% endtest %}

{% test expect_column_distinct_values_to_equal_set(model, column_name, value_set, quote_values=true, row_condition=none) %}
select distinct set_value, value_field
from ({{ dbt_expectations.set_rows(value_set, quote_values) }}) wanted
full outer join (select {{ column_name }} as value_field from {{ model }}{{ ' where ' ~ row_condition if row_condition }}) present on set_value = value_field
where set_value is null or value_field is null
{% endtest %}

{% test expect_column_most_common_value_to_be_in_set(model, column_name, value_set, top_n, quote_values=true, data_type='decimal', row_condition=none) %}
{%- set value_field = column_name if quote_values else 'cast(' ~ column_name ~ ' as ' ~ data_type ~ ')' -%}
select value_field
from (
    select {{ value_field }} as value_field, row_number() over (order by count(*) desc) as value_rank
    from {{ model }}
    {{ 'where ' ~ row_condition if row_condition }}
    group by {{ value_field }}
) ranked
where value_rank = {{ top_n }} and value_field not in (
    {%- for value in value_set -%}
    {{ "'" ~ value ~ "'" if quote_values else 'cast(' ~ value ~ ' as ' ~ data_type ~ ')' }}{{ ', ' if not loop.last }}
    {%- endfor -%}
)
{% endtest %}

{% test expect_column_max_to_be_between(model, column_name, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.groups_out_of_bounds(model, 'max(' ~ column_name ~ ')', min_value, max_value, group_by, row_condition, strictly) }}
{% endtest %}

{% test expect_column_min_to_be_between(model, column_name, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.groups_out_of_bounds(model, 'min(' ~ column_name ~ ')', min_value, max_value, group_by, row_condition, strictly) }}
{% endtest %}

{% test expect_column_mean_to_be_between(model, column_name, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.groups_out_of_bounds(model, 'avg(' ~ column_name ~ ')', min_value, max_value, group_by, row_condition, strictly) }}
{% endtest %}

{% test expect_column_sum_to_be_between(model, column_name, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.groups_out_of_bounds(model, 'sum(' ~ column_name ~ ')', min_value, max_value, group_by, row_condition, strictly) }}
{% endtest %}

{% test expect_column_median_to_be_between(model, column_name, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.groups_out_of_bounds(model, 'percentile(' ~ column_name ~ ', 0.5)', min_value, max_value, group_by, row_condition, strictly) }}
{% endtest %}

{% test expect_column_quantile_values_to_be_between(model, column_name, quantile, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.groups_out_of_bounds(model, 'percentile(' ~ column_name ~ ', ' ~ quantile ~ ')', min_value, max_value, group_by, row_condition, strictly) }}
{% endtest %}

{% test expect_column_stdev_to_be_between(model, column_name, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.groups_out_of_bounds(model, 'stddev(' ~ column_name ~ ')', min_value, max_value, group_by, row_condition, strictly) }}
{% endtest %}

{% test expect_column_unique_value_count_to_be_between(model, column_name, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.groups_out_of_bounds(model, 'count(distinct ' ~ column_name ~ ')', min_value, max_value, group_by, row_condition, strictly) }}
{% endtest %}

{% test expect_column_proportion_of_unique_values_to_be_between(model, column_name, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{%- set proportion = 'cast(count(distinct ' ~ column_name ~ ') as ' ~ dbt.type_float() ~ ') / count(' ~ column_name ~ ')' -%}
{{ dbt_expectations.groups_out_of_bounds(model, proportion, min_value, max_value, group_by, row_condition, strictly) }}
{% endtest %}

{# Several columns #}

{% test expect_column_pair_values_A_to_be_greater_than_B(model, column_A, column_B, or_equal=false, row_condition=none) %}
{{ dbt_expectations.rows_that_violate(model, column_A ~ (' >= ' if or_equal else ' > ') ~ column_B, row_condition) }}
{% endtest %}

{% test expect_column_pair_values_to_be_equal(model, column_A, column_B, row_condition=none) %}
{{ dbt_expectations.rows_that_violate(model, column_A ~ ' = ' ~ column_B, row_condition) }}
{% endtest %}

{% test expect_column_pair_values_to_be_in_set(model, column_A, column_B, value_pairs_set, row_condition=none) %}
{%- set conditions = [] -%}
{%- for pair in value_pairs_set -%}
{%- if pair | length != 2 -%}{{ exceptions.raise_compiler_error('value_pairs_set must be a list of pairs') }}{%- endif -%}
{%- do conditions.append('(' ~ column_A ~ ' = ' ~ pair[0] ~ ' and ' ~ column_B ~ ' = ' ~ pair[1] ~ ')') -%}
{%- endfor -%}
{{ dbt_expectations.rows_that_violate(model, conditions | join(' or '), row_condition) }}
{% endtest %}

{% macro repeated_values(model, columns, ignore_row_if, row_condition) -%}
{%- set counted = dbt_expectations.ignored_rows(columns, ignore_row_if, row_condition) -%}
select {{ columns | join(', ') }}
from {{ model }}
{{ 'where ' ~ counted if counted }}
group by {{ columns | join(', ') }}
having count(*) > 1
{%- endmacro %}

{% test expect_compound_columns_to_be_unique(model, column_list, quote_columns=false, ignore_row_if='all_values_are_missing', row_condition=none) %}
{{ dbt_expectations.repeated_values(model, dbt_expectations.quoted_columns(column_list, quote_columns), ignore_row_if, row_condition) }}
{% endtest %}

{% test expect_select_column_values_to_be_unique_within_record(model, column_list, quote_columns=false, ignore_row_if='all_values_are_missing', row_condition=none) %}
{%- set columns = dbt_expectations.quoted_columns(column_list, quote_columns) -%}
{%- set texts = [] -%}
{%- for column in columns -%}{%- do texts.append('cast(' ~ column ~ ' as string)') -%}{%- endfor -%}
{%- set distinct_values = 'size(array_except(array(' ~ texts | join(', ') ~ '), array(cast(null as string))))' -%}
{{ dbt_expectations.rows_that_violate(model, distinct_values ~ ' = ' ~ columns | length, dbt_expectations.ignored_rows(columns, ignore_row_if, row_condition)) }}
{% endtest %}

{% test expect_multicolumn_sum_to_equal(model, column_list, sum_total, group_by=none, row_condition=none) %}
{%- set sums = [] -%}
{%- for column in column_list -%}{%- do sums.append('sum(' ~ column ~ ')') -%}{%- endfor -%}
{%- set total = sum_total if sum_total is number else 'sum(' ~ sum_total ~ ')' -%}
{{ dbt_expectations.groups_that_violate(model, sums | join(' + ') ~ ' = ' ~ total, 'expression', group_by, row_condition) }}
{% endtest %}

{# Distributions #}

{% test expect_column_values_to_be_within_n_stdevs(model, column_name, group_by=none, sigma_threshold=3) %}
{#- Without groups there is one sum, which deviates from nothing. #}
select *
from (
    select metric, (metric - avg(metric) over ()) / nullif(stddev(metric) over (), 0) as sigma
    from (
        select sum({{ column_name }}) as metric
        from {{ model }}
        {{ 'group by ' ~ group_by | join(', ') if group_by }}
    ) metrics
) deviations
where abs(sigma) > {{ sigma_threshold }}
{% endtest %}

{% macro metric_of(column, take_logs) -%}
{{ 'coalesce(ln(nullif(' ~ column ~ ', 0)), 0)' if take_logs else 'coalesce(' ~ column ~ ', 0)' }}
{%- endmacro %}

{% test expect_column_values_to_be_within_n_moving_stdevs(model, column_name, date_column_name, group_by=none, period='day', lookback_periods=1, trend_periods=7, test_periods=14, sigma_threshold=3, sigma_threshold_upper=none, sigma_threshold_lower=none, take_diffs=true, take_logs=true) %}
{%- set columns = group_by or [] -%}
{%- set by = columns | join(', ') ~ ', ' if columns else '' -%}
{%- set window = ('partition by ' ~ columns | join(', ') ~ ' ' if columns else '') ~ 'order by metric_period' -%}
{%- set trend = window ~ ' rows between ' ~ trend_periods ~ ' preceding and 1 preceding' -%}
{%- set upper, lower = sigma_threshold_upper or sigma_threshold, sigma_threshold_lower or -1 * sigma_threshold -%}
{%- set today = dbt.date_trunc(period, dbt_date.now()) -%}
with totals as (
    select {{ by }}{{ dbt.date_trunc(period, date_column_name) }} as metric_period, sum({{ column_name }}) as total
    from {{ model }}
    group by {{ by }}{{ dbt.date_trunc(period, date_column_name) }}
), followed as (
    select *, lag(total, {{ lookback_periods }}) over ({{ window }}) as total_before from totals
), metrics as (
    select *, {{ dbt_expectations.metric_of('total', take_logs) }}{{ ' - ' ~ dbt_expectations.metric_of('total_before', take_logs) if take_diffs }} as metric from followed
), deviations as (
    select *, (metric - avg(metric) over ({{ trend }})) / nullif(stddev(metric) over ({{ trend }}), 0) as sigma from metrics
)
select *
from deviations
where metric_period >= cast({{ dbt.dateadd(period, -1 * test_periods, today) }} as {{ dbt.type_timestamp() }})
    and metric_period < {{ today }}
    and not(sigma >= {{ lower }} and sigma <= {{ upper }})
{% endtest %}

{% test expect_row_values_to_have_data_for_every_n_datepart(model, date_col, date_part='day', interval=none, row_condition=none, exclusion_condition=none, test_start_date=none, test_end_date=none) %}
{%- set where = ' where ' ~ row_condition if row_condition else '' -%}
{%- set first = "'" ~ test_start_date ~ "'" if test_start_date else 'min(cast(' ~ date_col ~ ' as date))' -%}
{%- set last = "'" ~ test_end_date ~ "'" if test_end_date else 'max(cast(' ~ date_col ~ ' as date))' -%}
{%- set period = dbt.date_trunc(date_part, date_col) -%}
{%- set after_slice = 'mod(cast(' ~ dbt.datediff('first_date', date_col, date_part) ~ ' as int), ' ~ interval ~ ') * -1' -%}
with bounds as (
    select cast({{ first }} as timestamp) as first_date, cast({{ last }} as timestamp) as end_date
    {{ 'from ' ~ model ~ where if not (test_start_date and test_end_date) }}
), counted as (
    select *, cast({{ dbt.datediff('first_date', 'end_date', date_part) }} as int) as number_of_periods from bounds
), numbered as (
    select first_date, end_date, explode(sequence(0, number_of_periods - 1)) as number_of_period from counted where number_of_periods > 0
), expected as (
    select *
    from (
        select {{ dbt.dateadd(date_part, 'number_of_period', 'first_date') }} as date_{{ date_part }}, first_date, end_date
        from numbered
    ) dated
    {{ 'where mod(cast(' ~ dbt.datediff('first_date', 'date_' ~ date_part, date_part) ~ ' as int), ' ~ interval ~ ') = 0' if interval }}
), present as (
    select cast({{ dbt.dateadd(date_part, after_slice, period) if interval else period }} as timestamp) as present_{{ date_part }}, count(*) as row_count
    from (select * from {{ model }}{{ where }}) judged
    cross join bounds
    group by 1
), compared as (
    select date_{{ date_part }}, present_{{ date_part }} is null as is_missing, coalesce(row_count, 0) as row_cnt
    from expected
    left join present on date_{{ date_part }} = present_{{ date_part }}
    where date_{{ date_part }} <= end_date
)
select * from compared where row_cnt = 0{{ ' and ' ~ exclusion_condition if exclusion_condition }}
{% endtest %}
