{# The macros that every dbt project on Spark has, with the SQL that they have there. #}

{% macro any_value(expression) -%}
first({{ expression }})
{%- endmacro %}

{% macro array_append(array, new_element) -%}
concat({{ array }}, array({{ new_element }}))
{%- endmacro %}

{% macro array_concat(array_1, array_2) -%}
concat({{ array_1 }}, {{ array_2 }})
{%- endmacro %}

{% macro array_construct(inputs, data_type='') -%}
array({{ inputs | join(', ') }})
{%- endmacro %}

{% macro assert_not_null(function, arg) -%}
coalesce({{ function }}({{ arg }}), nvl2({{ function }}({{ arg }}), assert_true({{ function }}({{ arg }}) is not null), null))
{%- endmacro %}

{% macro bool_or(expression) -%}
max({{ expression }})
{%- endmacro %}

{% macro cast(field, type) -%}
cast({{ field }} as {{ type }})
{%- endmacro %}

{% macro cast_bool_to_text(field) -%}
cast({{ field }} as string)
{%- endmacro %}

{% macro concat(fields) -%}
concat({{ fields | join(', ') }})
{%- endmacro %}

{% macro current_timestamp() -%}
current_timestamp()
{%- endmacro %}

{% macro date(year, month, day) -%}
to_date('{{ "%04d-%02d-%02d" | format(year, month, day) }}', 'yyyy-MM-dd')
{%- endmacro %}

{% macro date_spine(datepart, start_date, end_date, period='period - 1') -%}
{#- dbt asks the warehouse how many periods there are; here the query itself counts them. The rows are dbt's: for weeks,
    quarters and what is shorter than a day these are not the periods, as its `period - 1` is multiplied unbracketed. -#}
with counted as (
    select cast({{ datediff(start_date, end_date, datepart) }} as int) as periods
), numbered as (
    select explode(sequence(1, periods)) as period from counted where periods > 0
), dated as (
    select {{ dateadd(datepart, period, start_date) }} as date_{{ datepart }} from numbered
)
select * from dated where date_{{ datepart }} <= {{ end_date }}
{%- endmacro %}

{% macro dbt_date_spine(datepart, start_date, end_date) -%}
{#- The package dbt_date has brackets there. -#}
{{ date_spine(datepart, start_date, end_date, '(period - 1)') }}
{%- endmacro %}

{% macro date_trunc(datepart, date) -%}
date_trunc('{{ datepart }}', {{ date }})
{%- endmacro %}

{% macro dateadd(datepart, interval, from_date_or_timestamp) -%}
{%- set clock = 'to_unix_timestamp(' ~ assert_not_null('to_timestamp', from_date_or_timestamp) ~ ') - to_unix_timestamp(' ~ assert_not_null('date', from_date_or_timestamp) ~ ')' -%}
{%- set days = {'day': 1, 'week': 7} -%}
{%- set months = {'month': 1, 'quarter': 3, 'year': 12} -%}
{%- set seconds = {'hour': '3600', 'minute': '60', 'second': '1', 'millisecond': '(1/1000000)', 'microsecond': '(1/1000000)'} -%}
{%- if datepart in days -%}
to_timestamp(to_unix_timestamp(date_add({{ assert_not_null('date', from_date_or_timestamp) }}, cast({{ interval }} * {{ days[datepart] }} as int))) + {{ clock }})
{%- elif datepart in months -%}
to_timestamp(to_unix_timestamp(add_months({{ assert_not_null('date', from_date_or_timestamp) }}, cast({{ interval }} * {{ months[datepart] }} as int))) + {{ clock }})
{%- else -%}
to_timestamp({{ assert_not_null('to_unix_timestamp', from_date_or_timestamp) }} + cast({{ interval }} * {{ seconds[datepart] }} as int))
{%- endif -%}
{%- endmacro %}

{% macro datediff(first_date, second_date, datepart) -%}
{%- set seconds = {'hour': '3600', 'minute': '60', 'second': '1', 'millisecond': '(1/1000)', 'microsecond': '(1/1000000)'} -%}
{%- set first = assert_not_null('date', first_date) -%}
{%- set second = assert_not_null('date', second_date) -%}
{%- if datepart == 'day' -%}
datediff({{ second }}, {{ first }})
{%- elif datepart == 'week' -%}
case when {{ first }} < {{ second }} then floor(datediff({{ second }}, {{ first }}) / 7) else ceil(datediff({{ second }}, {{ first }}) / 7) end
+ case when {{ first }} < {{ second }} and dayofweek({{ second }}) < dayofweek({{ first }}) then 1
  when {{ first }} > {{ second }} and dayofweek({{ second }}) > dayofweek({{ first }}) then -1 else 0 end
{%- elif datepart == 'month' -%}
case when {{ first }} < {{ second }} then floor(months_between(date({{ second }}), date({{ first }}))) else ceil(months_between(date({{ second }}), date({{ first }}))) end
+ case when {{ first }} < {{ second }} and dayofmonth({{ second }}) < dayofmonth({{ first }}) then 1
  when {{ first }} > {{ second }} and dayofmonth({{ second }}) > dayofmonth({{ first }}) then -1 else 0 end
{%- elif datepart == 'quarter' -%}
{%- set in_first = '(dayofyear(' ~ first ~ ') - (quarter(' ~ first ~ ') * 365/4))' -%}
{%- set in_second = '(dayofyear(' ~ second ~ ') - (quarter(' ~ second ~ ') * 365/4))' -%}
case when {{ first }} < {{ second }} then floor(months_between(date({{ second }}), date({{ first }})) / 3) else ceil(months_between(date({{ second }}), date({{ first }})) / 3) end
+ case when {{ first }} < {{ second }} and ({{ in_second }} < {{ in_first }}) then 1
  when {{ first }} > {{ second }} and ({{ in_second }} > {{ in_first }}) then -1 else 0 end
{%- elif datepart == 'year' -%}
year({{ second }}) - year({{ first }})
{%- else -%}
{%- set begin = assert_not_null('to_unix_timestamp', assert_not_null('to_timestamp', first_date)) -%}
{%- set end = assert_not_null('to_unix_timestamp', assert_not_null('to_timestamp', second_date)) -%}
case when {{ first_date }} < {{ second_date }} then ceil(({{ end }} - {{ begin }}) / {{ seconds[datepart] }}) else floor(({{ end }} - {{ begin }}) / {{ seconds[datepart] }}) end
{%- if datepart == 'millisecond' %}
+ cast(date_format({{ second_date }}, 'SSS') as int) - cast(date_format({{ first_date }}, 'SSS') as int)
{%- elif datepart == 'microsecond' -%}
{%- set capture = '[0-9]{4}-[0-9]{2}-[0-9]{2}.[0-9]{2}:[0-9]{2}:[0-9]{2}.([0-9]{6})' %}
+ cast(regexp_extract({{ second_date }}, '{{ capture }}', 1) as int) - cast(regexp_extract({{ first_date }}, '{{ capture }}', 1) as int)
{%- endif -%}
{%- endif -%}
{%- endmacro %}

{% macro equals(expr1, expr2) -%}
({{ expr1 }} = {{ expr2 }})
{%- endmacro %}

{% macro escape_single_quotes(expression) -%}
{{ expression | replace("'", "\\'") }}
{%- endmacro %}

{% macro except() -%}
except
{%- endmacro %}

{% macro generate_series(upper_bound) -%}
{%- set powers = [] -%}
{%- for i in range(64) -%}
{%- if (i == 0 and upper_bound > 0) or (i > 0 and upper_bound > 2 ** i) -%}{%- do powers.append(i) -%}{%- endif -%}
{%- endfor -%}
with p as (
    select 0 as generated_number union all select 1
), unioned as (
    select {% for i in powers %}p{{ i }}.generated_number * power(2, {{ i }}) + {% endfor %}1 as generated_number
    from {% for i in powers %}p as p{{ i }}{% if not loop.last %} cross join {% endif %}{% endfor %}
)
select *
from unioned
where generated_number <= {{ upper_bound }}
order by generated_number
{%- endmacro %}

{% macro hash(field) -%}
md5(cast({{ field }} as string))
{%- endmacro %}

{% macro intersect() -%}
intersect
{%- endmacro %}

{% macro last_day(date, datepart) -%}
cast({{ dateadd('day', '-1', dateadd(datepart, '1', date_trunc(datepart, date))) }} as date)
{%- endmacro %}

{% macro length(expression) -%}
length({{ expression }})
{%- endmacro %}

{% macro listagg(measure, delimiter_text="','", order_by_clause=none, limit_num=none) -%}
array_join({% if limit_num %}slice(collect_list({{ measure }}), 1, {{ limit_num }}){% else %}collect_list({{ measure }}){% endif %}, {{ delimiter_text }})
{%- endmacro %}

{% macro position(substring_text, string_text) -%}
position({{ substring_text }} in {{ string_text }})
{%- endmacro %}

{% macro quote(identifier) -%}
`{{ identifier }}`
{%- endmacro %}

{% macro replace(field, old_chars, new_chars) -%}
replace({{ field }}, {{ old_chars }}, {{ new_chars }})
{%- endmacro %}

{% macro right(string_text, length_expression) -%}
right({{ string_text }}, {{ length_expression }})
{%- endmacro %}

{% macro safe_cast(field, type) -%}
{%- set kind = type | lower -%}
{%- if field is string and (kind.startswith('struct') or kind.startswith('array') or kind.startswith('map')) -%}
cast({{ field.strip('"').strip("'") }} as {{ type }})
{%- else -%}
cast({{ field }} as {{ type }})
{%- endif -%}
{%- endmacro %}

{% macro slugify(string) -%}
{%- set slug -%}
{%- set blank = namespace(before=false) -%}
{%- for character in string | lower -%}
{%- if character in ' -' -%}
{%- if not blank.before -%}_{%- endif -%}
{%- elif character in 'abcdefghijklmnopqrstuvwxyz0123456789_' -%}
{{ character }}
{%- endif -%}
{%- set blank.before = character in ' -' -%}
{%- endfor -%}
{%- endset -%}
{{ '_' if slug[:1] in '0123456789' and slug }}{{ slug }}
{%- endmacro %}

{% macro split_part(string_text, delimiter_text, part_number) -%}
{%- set delimiter = "case when regexp_extract(" ~ delimiter_text ~ ", '([^A-Za-z0-9])(.*)', 1) != '_' then concat('\\\\', " ~ delimiter_text ~ ") else " ~ delimiter_text ~ " end" -%}
{%- if part_number >= 0 -%}
split({{ string_text }}, {{ delimiter }})[({{ part_number - 1 if part_number > 0 else part_number }})]
{%- else -%}
split({{ string_text }}, {{ delimiter }})[(length({{ string_text }}) - length(replace({{ string_text }}, {{ delimiter_text }}, '')) + 1 + {{ part_number }})]
{%- endif -%}
{%- endmacro %}

{% macro string_literal(value) -%}
'{{ value }}'
{%- endmacro %}

{% macro type_bigint() -%}
bigint
{%- endmacro %}

{% macro type_boolean() -%}
boolean
{%- endmacro %}

{% macro type_float() -%}
float
{%- endmacro %}

{% macro type_int() -%}
integer
{%- endmacro %}

{% macro type_numeric() -%}
numeric(28,6)
{%- endmacro %}

{% macro type_string() -%}
string
{%- endmacro %}

{% macro type_timestamp() -%}
timestamp
{%- endmacro %}

{% test unique(model, column_name) %}
select {{ column_name }} as unique_field, count(*) as n_records
from {{ model }}
where {{ column_name }} is not null
group by {{ column_name }}
having count(*) > 1
{% endtest %}

{% test not_null(model, column_name) %}
select * from {{ model }} where {{ column_name }} is null
{% endtest %}

{% test accepted_values(model, column_name, values, quote=True) %}
select value_field, n_records
from (
    select {{ column_name }} as value_field, count(*) as n_records from {{ model }} group by {{ column_name }}
) all_values
where value_field not in (
    {%- for value in values -%}
    {%- if quote -%}'{{ value }}'{%- else -%}{{ value }}{%- endif -%}
    {%- if not loop.last -%}, {% endif -%}
    {%- endfor -%}
)
{% endtest %}

{% test relationships(model, column_name, to, field) %}
select from_field
from (
    select {{ column_name }} as from_field from {{ model }} where {{ column_name }} is not null
) child
left join (
    select {{ field }} as to_field from {{ to }}
) parent on child.from_field = parent.to_field
where parent.to_field is null
{% endtest %}
