{# The macros of the package dbt_date that ask nothing of the warehouse, with the SQL that they have on Spark. #}

{% macro convert_timezone(column, target_tz=none, source_tz=none) -%}
from_utc_timestamp(to_utc_timestamp({{ column }}, '{{ source_tz or 'UTC' }}'), '{{ target_tz or var('dbt_date:time_zone') }}')
{%- endmacro %}

{% macro now(tz=none) -%}
{{ dbt_date.convert_timezone(dbt.current_timestamp(), tz) }}
{%- endmacro %}

{% macro today(tz=none) -%}
cast({{ dbt_date.now(tz) }} as date)
{%- endmacro %}

{% macro yesterday(date=none, tz=none) -%}
{{ dbt_date.n_days_ago(1, date, tz) }}
{%- endmacro %}

{% macro tomorrow(date=none, tz=none) -%}
{{ dbt_date.n_days_away(1, date, tz) }}
{%- endmacro %}

{% macro n_days_ago(n, date=none, tz=none) -%}
cast({{ dbt.dateadd('day', -1 * (n | int), date or dbt_date.today(tz)) }} as date)
{%- endmacro %}

{% macro n_days_away(n, date=none, tz=none) -%}
{{ dbt_date.n_days_ago(-1 * (n | int), date, tz) }}
{%- endmacro %}

{% macro n_weeks_ago(n, tz=none) -%}
{{ dbt.date_trunc('week', dbt.dateadd('week', -1 * (n | int), dbt_date.today(tz))) }}
{%- endmacro %}

{% macro n_weeks_away(n, tz=none) -%}
{{ dbt_date.n_weeks_ago(-1 * (n | int), tz) }}
{%- endmacro %}

{% macro n_months_ago(n, tz=none) -%}
{{ dbt.date_trunc('month', dbt.dateadd('month', -1 * (n | int), dbt_date.today(tz))) }}
{%- endmacro %}

{% macro n_months_away(n, tz=none) -%}
{{ dbt_date.n_months_ago(-1 * (n | int), tz) }}
{%- endmacro %}

{% macro last_week(tz=none) -%}
{{ dbt_date.n_weeks_ago(1, tz) }}
{%- endmacro %}

{% macro next_week(tz=none) -%}
{{ dbt_date.n_weeks_away(1, tz) }}
{%- endmacro %}

{% macro last_month(tz=none) -%}
{{ dbt_date.n_months_ago(1, tz) }}
{%- endmacro %}

{% macro next_month(tz=none) -%}
{{ dbt_date.n_months_away(1, tz) }}
{%- endmacro %}

{% macro last_month_name(short=true, tz=none) -%}
{{ dbt_date.month_name(dbt_date.last_month(tz), short) }}
{%- endmacro %}

{% macro next_month_name(short=true, tz=none) -%}
{{ dbt_date.month_name(dbt_date.next_month(tz), short) }}
{%- endmacro %}

{% macro last_month_number(tz=none) -%}
{{ dbt_date.date_part('month', dbt_date.last_month(tz)) }}
{%- endmacro %}

{% macro next_month_number(tz=none) -%}
{{ dbt_date.date_part('month', dbt_date.next_month(tz)) }}
{%- endmacro %}

{% macro date_part(datepart, date) -%}
date_part('{{ datepart }}', {{ date }})
{%- endmacro %}

{% macro day_name(date, short=true) -%}
date_format({{ date }}, '{{ 'E' if short else 'EEEE' }}')
{%- endmacro %}

{% macro month_name(date, short=true) -%}
date_format({{ date }}, '{{ 'LLL' if short else 'LLLL' }}')
{%- endmacro %}

{% macro day_of_month(date) -%}
{{ dbt_date.date_part('day', date) }}
{%- endmacro %}

{% macro day_of_week(date, isoweek=true) -%}
{{ dbt_date.date_part('dayofweek_iso' if isoweek else 'dayofweek', date) }}
{%- endmacro %}

{% macro day_of_year(date) -%}
dayofyear({{ date }})
{%- endmacro %}

{% macro week_of_year(date=none, tz=none) -%}
cast({{ dbt_date.date_part('week', date or dbt_date.today(tz)) }} as {{ dbt.type_int() }})
{%- endmacro %}

{% macro iso_week_of_year(date=none, tz=none) -%}
{{ dbt_date.week_of_year(date, tz) }}
{%- endmacro %}

{% macro week_start(date=none, tz=none) -%}
cast({{ dbt.date_trunc('week', date or dbt_date.today(tz)) }} as date)
{%- endmacro %}

{% macro week_end(date=none, tz=none) -%}
{{ dbt.last_day(date or dbt_date.today(tz), 'week') }}
{%- endmacro %}

{% macro iso_week_start(date=none, tz=none) -%}
cast({{ dbt.date_trunc('week', date or dbt_date.today(tz)) }} as date)
{%- endmacro %}

{% macro iso_week_end(date=none, tz=none) -%}
{{ dbt_date.n_days_away(6, dbt_date.iso_week_start(date, tz)) }}
{%- endmacro %}

{% macro periods_since(date_col, period_name='day', tz=none) -%}
{{ dbt.datediff(date_col, dbt_date.now(tz), period_name) }}
{%- endmacro %}

{% macro round_timestamp(timestamp) -%}
{{ dbt.date_trunc('day', dbt.dateadd('hour', 12, timestamp)) }}
{%- endmacro %}

{% macro from_unixtimestamp(epochs, format='seconds') -%}
{%- if format != 'seconds' -%}{{ exceptions.raise_compiler_error('format must be seconds on Spark') }}{%- endif -%}
to_timestamp({{ epochs }})
{%- endmacro %}

{% macro to_unixtimestamp(timestamp) -%}
unix_timestamp({{ timestamp }})
{%- endmacro %}

{% macro get_base_dates(start_date=none, end_date=none, n_dateparts=none, datepart='day') -%}
{%- if start_date and end_date -%}
{%- set first = "cast('" ~ start_date ~ "' as " ~ dbt.type_timestamp() ~ ")" -%}
{%- set last = "cast('" ~ end_date ~ "' as " ~ dbt.type_timestamp() ~ ")" -%}
{%- else -%}
{%- set first = dbt.dateadd(datepart, -1 * n_dateparts, dbt_date.today()) -%}
{%- set last = dbt_date.tomorrow() -%}
{%- endif -%}
select cast(date_{{ datepart }} as {{ dbt.type_timestamp() }}) as date_{{ datepart }}
from (
{{ dbt_date.date_spine(datepart, first, last) }}
) date_spine
{%- endmacro %}

{% macro get_date_dimension(start_date, end_date) -%}
{%- set day, year_ago, weeks_ago = 'd.date_day', 'd.prior_year_date_day', 'd.prior_year_over_year_date_day' -%}
{%- set int = dbt.type_int() -%}
with dated as (
    select
        cast(date_day as date) as date_day,
        cast({{ dbt.dateadd('year', -1, 'date_day') }} as date) as prior_year_date_day,
        cast({{ dbt.dateadd('day', -364, 'date_day') }} as date) as prior_year_over_year_date_day
    from (
{{ dbt_date.get_base_dates(start_date, end_date) }}
    ) base_dates
)
select
    d.date_day,
    {{ dbt_date.yesterday(day) }} as prior_date_day,
    {{ dbt_date.tomorrow(day) }} as next_date_day,
    d.prior_year_date_day,
    d.prior_year_over_year_date_day,
    {{ dbt_date.day_of_week(day, isoweek=false) }} as day_of_week,
    {{ dbt_date.day_of_week(day, isoweek=true) }} as day_of_week_iso,
    {{ dbt_date.day_name(day, short=false) }} as day_of_week_name,
    {{ dbt_date.day_name(day, short=true) }} as day_of_week_name_short,
    {{ dbt_date.day_of_month(day) }} as day_of_month,
    {{ dbt_date.day_of_year(day) }} as day_of_year,
    {{ dbt_date.week_start(day) }} as week_start_date,
    {{ dbt_date.week_end(day) }} as week_end_date,
    {{ dbt_date.week_start(weeks_ago) }} as prior_year_week_start_date,
    {{ dbt_date.week_end(weeks_ago) }} as prior_year_week_end_date,
    {{ dbt_date.week_of_year(day) }} as week_of_year,
    {{ dbt_date.iso_week_start(day) }} as iso_week_start_date,
    {{ dbt_date.iso_week_end(day) }} as iso_week_end_date,
    {{ dbt_date.iso_week_start(weeks_ago) }} as prior_year_iso_week_start_date,
    {{ dbt_date.iso_week_end(weeks_ago) }} as prior_year_iso_week_end_date,
    {{ dbt_date.iso_week_of_year(day) }} as iso_week_of_year,
    {{ dbt_date.week_of_year(weeks_ago) }} as prior_year_week_of_year,
    {{ dbt_date.iso_week_of_year(weeks_ago) }} as prior_year_iso_week_of_year,
    cast({{ dbt_date.date_part('month', day) }} as {{ int }}) as month_of_year,
    {{ dbt_date.month_name(day, short=false) }} as month_name,
    {{ dbt_date.month_name(day, short=true) }} as month_name_short,
    cast({{ dbt.date_trunc('month', day) }} as date) as month_start_date,
    {{ dbt.last_day(day, 'month') }} as month_end_date,
    cast({{ dbt.date_trunc('month', year_ago) }} as date) as prior_year_month_start_date,
    {{ dbt.last_day(year_ago, 'month') }} as prior_year_month_end_date,
    cast({{ dbt_date.date_part('quarter', day) }} as {{ int }}) as quarter_of_year,
    cast({{ dbt.date_trunc('quarter', day) }} as date) as quarter_start_date,
    {{ dbt.last_day(day, 'quarter') }} as quarter_end_date,
    cast({{ dbt_date.date_part('year', day) }} as {{ int }}) as year_number,
    cast({{ dbt.date_trunc('year', day) }} as date) as year_start_date,
    {{ dbt.last_day(day, 'year') }} as year_end_date
from dated d
order by 1
{%- endmacro %}

{% macro get_fiscal_year_dates(dates, year_end_month=12, week_start_day=1, shift_year=1) -%}
{#- Of the weeks that begin in the last month, a year ends with the one whose end is nearest to the end of the month. -#}
with weeks as (
    select
        year_number - {{ shift_year }} as fiscal_year_number,
        month_of_year,
        month_end_date,
        date_day as week_start_date,
        cast({{ dbt.dateadd('day', 6, 'date_day') }} as date) as week_end_date
    from {{ dates }}
    where day_of_week = {{ week_start_day }}
), last_weeks as (
    select fiscal_year_number, week_end_date, rank() over (
        partition by fiscal_year_number order by abs({{ dbt.datediff('week_end_date', 'month_end_date', 'day') }})
    ) as distance
    from (select distinct fiscal_year_number, week_end_date, month_end_date from weeks where month_of_year = {{ year_end_month }}) in_month
), years as (
    select
        fiscal_year_number,
        cast({{ dbt.dateadd('day', 1, 'lag(week_end_date) over (order by week_end_date)') }} as date) as fiscal_year_start_date,
        week_end_date as fiscal_year_end_date
    from last_weeks
    where distance = 1
)
select
    d.date_day,
    y.fiscal_year_number,
    y.fiscal_year_start_date,
    y.fiscal_year_end_date,
    w.week_start_date,
    w.week_end_date,
    dense_rank() over (partition by y.fiscal_year_number order by w.week_start_date) as fiscal_week_of_year
from {{ dates }} d
join years y on d.date_day between y.fiscal_year_start_date and y.fiscal_year_end_date
join weeks w on d.date_day between w.week_start_date and w.week_end_date
order by 1
{%- endmacro %}

{% macro get_fiscal_periods(dates, year_end_month, week_start_day, shift_year=1) -%}
{#- Quarters of 13 weeks, with periods of 4, 5 and 4 weeks; the last period of a year also has its week 53. -#}
with dated as (
{{ dbt_date.get_fiscal_year_dates(dates, year_end_month, week_start_day, shift_year) }}
), in_quarters as (
    select
        *,
        cast(least(floor((fiscal_week_of_year - 1) / 13), 3) as {{ dbt.type_int() }}) as quarter_number,
        mod(cast(fiscal_week_of_year - 1 as {{ dbt.type_int() }}), 13) as week_of_quarter
    from dated
), in_periods as (
    select *, case
        when fiscal_week_of_year = 53 or week_of_quarter > 8 then 3
        when week_of_quarter > 3 then 2
        else 1
    end as period_of_quarter
    from in_quarters
), numbered as (
    select *, quarter_number * 3 + period_of_quarter as fiscal_period_number from in_periods
)
select
    date_day,
    fiscal_year_number,
    week_start_date,
    week_end_date,
    fiscal_week_of_year,
    dense_rank() over (partition by fiscal_period_number order by fiscal_week_of_year) as fiscal_week_of_period,
    fiscal_period_number,
    quarter_number + 1 as fiscal_quarter_number,
    period_of_quarter as fiscal_period_of_quarter
from numbered
order by 1, 2
{%- endmacro %}
