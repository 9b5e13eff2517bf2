"""Macros of packages, called in models, each with what Python says of its value."""

import hashlib
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise


def monday(day):
    return day - timedelta(days=day.weekday())


def months_later(day, months):
    """Return the day some months later, at most the last one of its month."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def month_end(day):
    return date(day.year, day.month, monthrange(day.year, day.month)[1])


def quarter_start(day):
    return date(day.year, (day.month - 1) // 3 * 3 + 1, 1)


def midnight(day):
    return datetime(day.year, day.month, day.day)


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


DAY = timedelta(days=1)
OF_DAYS = {
    "date_part('quarter', 'd')": lambda d: (d.month - 1) // 3 + 1,
    "day_name('d')": lambda d: f"{d:%a}",
    "day_name('d', short=false)": lambda d: f"{d:%A}",
    "month_name('d')": lambda d: f"{d:%b}",
    "month_name('d', short=false)": lambda d: f"{d:%B}",
    "day_of_month('d')": lambda d: d.day,
    "day_of_week('d')": lambda d: d.isoweekday(),
    "day_of_week('d', isoweek=false)": lambda d: d.isoweekday() % 7 + 1,
    "day_of_year('d')": lambda d: d.timetuple().tm_yday,
    "week_of_year('d')": lambda d: d.isocalendar().week,
    "iso_week_of_year('d')": lambda d: d.isocalendar().week,
    "week_start('d')": monday,
    "week_end('d')": lambda d: monday(d) + 6 * DAY,
    "iso_week_start('d')": monday,
    "iso_week_end('d')": lambda d: monday(d) + 6 * DAY,
    "yesterday('d')": lambda d: d - DAY,
    "tomorrow('d')": lambda d: d + DAY,
    "n_days_ago(40, 'd')": lambda d: d - 40 * DAY,
    "n_days_away(40, 'd')": lambda d: d + 40 * DAY,
    "to_unixtimestamp('cast(d as timestamp)')": lambda d: int(midnight(d).replace(tzinfo=UTC).timestamp()),
    "round_timestamp('cast(d as timestamp) + interval 13 hours')": lambda d: midnight(d + DAY),
    "round_timestamp('cast(d as timestamp) + interval 11 hours')": midnight,
    "from_unixtimestamp('86400 * 3')": lambda d: datetime(1970, 1, 4),
    "convert_timezone(\"timestamp'2024-07-01 12:00:00'\", 'Asia/Tokyo')": lambda d: datetime(2024, 7, 1, 21),
    "convert_timezone(\"timestamp'2024-07-01 12:00:00'\", 'UTC', 'America/New_York')": lambda d: datetime(
        2024, 7, 1, 16
    ),
}
OF_TODAY = {
    "today()": lambda d: d,
    "yesterday()": lambda d: d - DAY,
    "tomorrow()": lambda d: d + DAY,
    "n_days_ago(3)": lambda d: d - 3 * DAY,
    "n_days_away('3')": lambda d: d + 3 * DAY,
    "n_weeks_ago(2)": lambda d: midnight(monday(d - 14 * DAY)),
    "n_weeks_away(2)": lambda d: midnight(monday(d + 14 * DAY)),
    "last_week()": lambda d: midnight(monday(d - 7 * DAY)),
    "next_week()": lambda d: midnight(monday(d + 7 * DAY)),
    "n_months_ago(5)": lambda d: midnight(months_later(d, -5).replace(day=1)),
    "n_months_away(5)": lambda d: midnight(months_later(d, 5).replace(day=1)),
    "last_month()": lambda d: midnight(months_later(d, -1).replace(day=1)),
    "next_month()": lambda d: midnight(months_later(d, 1).replace(day=1)),
    "last_month_name()": lambda d: f"{months_later(d, -1):%b}",
    "next_month_name(short=false)": lambda d: f"{months_later(d, 1):%B}",
    "last_month_number()": lambda d: months_later(d, -1).month,
    "next_month_number()": lambda d: months_later(d, 1).month,
    "week_start()": monday,
    "periods_since(\"date'2024-02-29'\")": lambda d: (d - date(2024, 2, 29)).days,
    "periods_since(\"date'2020-02-29'\", period_name='year')": lambda d: d.year - 2020,
}
IN_TOKYO = "now('Asia/Tokyo')"
OF_DIMENSION = {
    "date_day": lambda d: d,
    "prior_date_day": lambda d: d - DAY,
    "next_date_day": lambda d: d + DAY,
    "prior_year_date_day": lambda d: months_later(d, -12),
    "prior_year_over_year_date_day": lambda d: d - 364 * DAY,
    "day_of_week": lambda d: d.isoweekday() % 7 + 1,
    "day_of_week_iso": lambda d: d.isoweekday(),
    "day_of_week_name": lambda d: f"{d:%A}",
    "day_of_week_name_short": lambda d: f"{d:%a}",
    "day_of_month": lambda d: d.day,
    "day_of_year": lambda d: d.timetuple().tm_yday,
    "week_start_date": monday,
    "week_end_date": lambda d: monday(d) + 6 * DAY,
    "prior_year_week_start_date": lambda d: monday(d - 364 * DAY),
    "prior_year_week_end_date": lambda d: monday(d - 364 * DAY) + 6 * DAY,
    "week_of_year": lambda d: d.isocalendar().week,
    "iso_week_start_date": monday,
    "iso_week_end_date": lambda d: monday(d) + 6 * DAY,
    "prior_year_iso_week_start_date": lambda d: monday(d - 364 * DAY),
    "prior_year_iso_week_end_date": lambda d: monday(d - 364 * DAY) + 6 * DAY,
    "iso_week_of_year": lambda d: d.isocalendar().week,
    "prior_year_week_of_year": lambda d: (d - 364 * DAY).isocalendar().week,
    "prior_year_iso_week_of_year": lambda d: (d - 364 * DAY).isocalendar().week,
    "month_of_year": lambda d: d.month,
    "month_name": lambda d: f"{d:%B}",
    "month_name_short": lambda d: f"{d:%b}",
    "month_start_date": lambda d: d.replace(day=1),
    "month_end_date": month_end,
    "prior_year_month_start_date": lambda d: months_later(d, -12).replace(day=1),
    "prior_year_month_end_date": lambda d: month_end(months_later(d, -12)),
    "quarter_of_year": lambda d: (d.month - 1) // 3 + 1,
    "quarter_start_date": quarter_start,
    "quarter_end_date": lambda d: months_later(quarter_start(d), 3) - DAY,
    "year_number": lambda d: d.year,
    "year_start_date": lambda d: date(d.year, 1, 1),
    "year_end_date": lambda d: date(d.year, 12, 31),
}
FIRST_DAY, LAST_DAY = date(2014, 11, 1), date(2018, 3, 31)
"""Those of a calendar; of its years, one that ends in December and one that ends in January has 53 weeks."""


def fiscal_dates(month, week_start, shift):
    """Yield each day of the calendar, its fiscal year with its ends, the ends of its week, and the week's number."""
    days = [FIRST_DAY + number * DAY for number in range((LAST_DAY - FIRST_DAY).days + 1)]
    starts = [day for day in days if day.isoweekday() % 7 + 1 == week_start]
    ends = {}
    for start in starts:
        end = start + 6 * DAY
        if start.month == month and abs(end - month_end(start)) < abs(
            ends.get(start.year, date.min) - month_end(start)
        ):
            ends[start.year] = end
    for before, year in pairwise(sorted(ends)):
        first = ends[before] + DAY
        for day in days:
            if first <= day <= ends[year]:
                week = (day - first).days // 7
                yield (
                    day,
                    year - shift,
                    first,
                    ends[year],
                    first + 7 * week * DAY,
                    first + (7 * week + 6) * DAY,
                    week + 1,
                )


def fiscal_periods(month, week_start, shift):
    """Yield each day of the calendar with its week, and which one of its period, its period and its quarter."""
    for day, year, _, _, first, last, week in fiscal_dates(month, week_start, shift):
        quarter, number = (3, 13) if week == 53 else divmod(week - 1, 13)
        period = 0 if number < 4 else 1 if number < 9 else 2
        in_period = number - (0, 4, 9)[period] + 1
        yield day, year, first, last, week, in_period, quarter * 3 + period + 1, quarter + 1, period + 1


DAYS = [date(2024, 2, 29), date(2023, 12, 31), date(2021, 1, 3), date(2020, 12, 28), date(2024, 8, 31)]

URL = "https://www.shop.example/a/b?utm_source=mail&x=1"
OF_VALUES = {
    "dbt_utils.generate_surrogate_key(['1', \"'a'\", 'null'])": md5("1-a-_dbt_utils_surrogate_key_null_"),
    "dbt_utils.generate_surrogate_key(['7'])": md5("7"),
    "dbt_utils.safe_add(['1', 'null', '3'])": 4,
    "dbt_utils.safe_subtract(['1', 'null', '3'])": -2,
    "dbt_utils.safe_divide('6', '4')": 1.5,
    "dbt_utils.safe_divide('6', '2 - 2')": None,
    "dbt_utils.width_bucket('5.5', 0, 10, 5)": 3,
    "dbt_utils.width_bucket('4', 0, 10, 5)": 3,
    "dbt_utils.width_bucket('99', 0, 10, 5)": 6,
    f"dbt_utils.get_url_host(\"'{URL}'\")": "www.shop.example",
    f"dbt_utils.get_url_path(\"'{URL}'\")": "a/b",
    f"dbt_utils.get_url_parameter(\"'{URL}'\", 'utm_source')": "mail",
    "dbt_utils.slugify('A b')": "slug",
}
PAIRS = {"a": {1: "x", 2: "y", 3: None, 4: None, 5: "q"}, "b": {1: "x", 2: "z", 3: None, 4: "w", 6: "q"}}
"""The values of two queries by key."""
STATUSES = [
    ("✅: perfect match", [1]),
    ("✅: both are null", [3]),
    ("🤷: missing from a", [6]),
    ("🤷: missing from b", [5]),
    ("🤷: value is null in a only", [4]),
    ("🙅: values do not match", [2]),
]


def values_of(rows):
    return ", ".join("(" + ", ".join("null" if v is None else repr(v) for v in row) + ")" for row in rows)


def shown(names):
    return ", ".join(f"{{{{ dbt_date.{call} }}}} as c{index}" for index, call in enumerate(names))


def models_of_macros():
    """Return the queries of models that call the macros, by their names."""
    a, b = (f"select * from values {values_of(PAIRS[name].items())} as t(k, v)" for name in "ab")
    calls = ", ".join(
        f"'slug' as {{{{ {call} }}}}" if "slugify" in call else f"{{{{ {call} }}}} as c{index}"
        for index, call in enumerate(OF_VALUES)
    )
    return {
        "days": f"select d, {shown(OF_DAYS)} from (select explode(array("
        + ", ".join(f"date'{day}'" for day in DAYS)
        + ")) as d) t",
        "of_today": f"select {shown([*OF_TODAY, IN_TOKYO])}, current_timestamp() as at",
        "dimension": "{{ dbt_date.get_date_dimension('2023-12-20', '2024-03-05') }}",
        "base": "{{ dbt_date.get_base_dates('2024-01-31', '2024-06-01', datepart='month') }}",
        "lately": "{{ dbt_date.get_base_dates(n_dateparts=3) }}",
        "calendar": f"{{{{ dbt_date.get_date_dimension('{FIRST_DAY}', '{LAST_DAY + DAY}') }}}}",
        "fiscal_years": "{{ dbt_date.get_fiscal_year_dates(ref('calendar'), 1) }}",
        "fiscal_periods": "{{ dbt_date.get_fiscal_periods(ref('calendar'), 12, 2, shift_year=0) }}",
        "weeks": "{{ dbt_date.date_spine('week', \"date'2024-01-01'\", \"date'2024-02-01'\") }}",
        "months": "{{ dbt_utils.date_spine('month', \"date'2024-01-31'\", \"date'2024-06-01'\") }}",
        "values_of_utils": f"select {calls}",
        "far": "select {{ dbt_utils.haversine_distance('48.85', '2.35', '51.5', '-0.12', 'km') }} as km",
        "series": "{{ dbt_utils.generate_series(5) }}",
        "pivoted": "select id, {{ dbt_utils.pivot('grp', ['a', 'b'], suffix='s') }} from values (1, 'a'), (1, 'b'), "
        "(1, 'a'), (2, 'b') as t(id, grp) {{ dbt_utils.group_by(1) }}",
        "slugs": "select {{ dbt_utils.pivot('grp', ['A b', '1-a'], quote_identifiers=false) }} "
        "{{ dbt_utils.log_info('x') }} from values (1, 'A b'), (2, '1-a'), (3, '1-a') as t(id, grp)",
        "visits": "select * from values (1, 1, 'x'), (1, 2, 'y'), (2, 5, 'z'), (2, 5, 'z') as t(id, at, v)",
        "first_visits": "{{ dbt_utils.deduplicate(ref('visits'), partition_by='id', order_by='at desc') }}",
        "summary": f'{{{{ audit_helper.compare_queries("{a}", "{b}") }}}}',
        "differences": f'{{{{ audit_helper.compare_queries("{a}", "{b}", primary_key=\'k\', summarize=false) }}}}',
        "statuses": f"{{{{ audit_helper.compare_column_values(\"{a}\", \"{b}\", 'k', 'v') }}}}",
        "verbose": f"{{{{ audit_helper.compare_column_values_verbose(\"{a}\", \"{b}\", 'k', 'v') }}}}",
        "columns_that_differ": "{{ audit_helper.compare_which_query_columns_differ("
        f"\"{a}\", \"{b}\", ['k'], ['v']) }}}}",
        "counts": "{{ audit_helper.compare_row_counts(ref('visits'), ref('first_visits')) }}",
    }
