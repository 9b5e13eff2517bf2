"""Macros and generic tests of packages, as they are built in: imported, run on Spark, and compared with Python."""

import hashlib
import json
import sys
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent.parent / "dbt"))
from package_cases import CASES, query, random_rows

from rivet_dagster.cli.main import main

TABLES = (0, 5, 6, 7)
"""The tables of random rows of which the tests are judged; most tests hold of one, and do not of another."""
PACKAGES = (
    "packages: [{package: dbt-labs/dbt_utils}, {package: metaplane/dbt_expectations}, "
    "{git: 'https://github.com/dbt-labs/dbt-audit-helper.git'}]"
)
PROJECT = "name: shop\nprofile: shop\nvars: {'dbt_date:time_zone': UTC}\n"
SMALL = {"spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"}
SMALL["spark.sql.session.timeZone"] = "UTC"


def imported(folder, capsys, models, properties=None):
    """Write a dbt project of tables, import it, and return the folder of the new project and the report."""
    files = {"dbt_project.yml": PROJECT, "packages.yml": PACKAGES}
    files |= {f"models/{name}.sql": f"{{{{ config(materialized='table') }}}}\n{sql}" for name, sql in models.items()}
    files |= {"models/all.yml": yaml.safe_dump(properties, sort_keys=False)} if properties else {}
    for name, text in files.items():
        (folder / "old" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "old" / name).write_text(text)
    code, report = run(capsys, "import", "dbt", folder / "old", "--to", folder / "new")
    entries = (*report["models"], *report["tests"], *report["others"])
    assert [entry for entry in entries if entry["status"] == "left_out"] == []
    assert code == 0
    profiles = folder / "new" / "profiles.yaml"
    settings = "".join(f"        {key}: '{value}'\n" for key, value in SMALL.items())
    written = profiles.read_text()
    assert 'spark.sql.ansi.enabled: "false"' in written
    profiles.write_text(written.replace('        spark.sql.ansi.enabled: "false"\n', settings))
    return folder / "new", report


def run(capsys, *arguments):
    code = main([*map(str, arguments), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.nightly
def test_generic_tests(tmp_path, capsys):
    models = {f"rows_{number}": query(random_rows(number)) for number in TABLES}
    models |= {"others": query(random_rows(7)), "narrow": "select 1 as id"}
    declared = []
    for number in TABLES:
        of_table, of_columns = [], {}
        for index, (name, case) in enumerate(CASES):
            where = {"where": case.where} if case.where else {}
            config = {"name": f"case_{index}_of_{number}", "config": {"severity": "warn", **where}}
            test = {name: {**config, **({"arguments": case.arguments} if case.arguments else {})}}
            (of_table if case.column is None else of_columns.setdefault(case.column, [])).append(test)
        columns = [{"name": column, "data_tests": tests} for column, tests in of_columns.items()]
        declared.append({"name": f"rows_{number}", "data_tests": of_table, "columns": columns})
    new, _ = imported(tmp_path, capsys, models, {"models": declared})
    _, result = run(capsys, "-p", new, "run")
    found = {check["check"]: check for check in result["checks"]}
    assert len(found) == len(CASES) * len(TABLES)
    wrong = []
    for number in TABLES:
        rows, others = random_rows(number), random_rows(7)
        for index, (name, case) in enumerate(CASES):
            check, expected = found[f"case_{index}_of_{number}"], case.holds(rows, others)
            if check["passed"] is not expected or check.get("error"):
                wrong.append((name, case.arguments, number, check, expected))
    assert wrong == []


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


def table(folder, name):
    """Return the columns and the rows of a table."""
    stored = duckdb.sql(f"select * from read_parquet('{(folder / 'warehouse' / name).resolve()}/*.parquet')")
    return stored.columns, [tuple(map(plain, row)) for row in stored.fetchall()]


def plain(value):
    """Return a time in UTC without its zone, and a decimal as the nearest double."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return float(value) if isinstance(value, Decimal) else value


def values_of(rows):
    return ", ".join("(" + ", ".join("null" if v is None else repr(v) for v in row) + ")" for row in rows)


def shown(names):
    return ", ".join(f"{{{{ dbt_date.{call} }}}} as c{index}" for index, call in enumerate(names))


@pytest.mark.nightly
def test_macros(tmp_path, capsys):
    a, b = (f"select * from values {values_of(PAIRS[name].items())} as t(k, v)" for name in "ab")
    calls = ", ".join(
        f"'slug' as {{{{ {call} }}}}" if "slugify" in call else f"{{{{ {call} }}}} as c{index}"
        for index, call in enumerate(OF_VALUES)
    )
    models = {
        "days": f"select d, {shown(OF_DAYS)} from (select explode(array("
        + ", ".join(f"date'{day}'" for day in DAYS)
        + ")) as d) t",
        "of_today": f"select {shown([*OF_TODAY, IN_TOKYO])}, current_timestamp() as at",
        "dimension": "{{ dbt_date.get_date_dimension('2023-12-20', '2024-03-05') }}",
        "base": "{{ dbt_date.get_base_dates('2024-01-31', '2024-06-01', datepart='month') }}",
        "lately": "{{ dbt_date.get_base_dates(n_dateparts=3) }}",
        "weeks": "{{ dbt_date.date_spine('week', \"date'2024-01-01'\", \"date'2024-02-01'\") }}",
        "values_of_utils": f"select {calls}",
        "far": "select {{ dbt_utils.haversine_distance('48.85', '2.35', '51.5', '-0.12', 'km') }} as km",
        "series": "{{ dbt_utils.generate_series(5) }}",
        "pivoted": "select id, {{ dbt_utils.pivot('grp', ['a', 'b'], suffix='s') }} from values (1, 'a'), (1, 'b'), "
        "(1, 'a'), (2, 'b') as t(id, grp) {{ dbt_utils.group_by(1) }}",
        "visits": "select * from values (1, 1, 'x'), (1, 2, 'y'), (2, 5, 'z'), (2, 5, 'z') as t(id, at, v)",
        "first_visits": "{{ dbt_utils.deduplicate(ref('visits'), partition_by='id', order_by='at desc') }}",
        "summary": f'{{{{ audit_helper.compare_queries("{a}", "{b}") }}}}',
        "differences": f'{{{{ audit_helper.compare_queries("{a}", "{b}", primary_key=\'k\', summarize=false) }}}}',
        "statuses": f"{{{{ audit_helper.compare_column_values(\"{a}\", \"{b}\", 'k', 'v') }}}}",
        "verbose": f"{{{{ audit_helper.compare_column_values_verbose(\"{a}\", \"{b}\", 'k', 'v') }}}}",
        "counts": "{{ audit_helper.compare_row_counts(ref('visits'), ref('first_visits')) }}",
    }
    before = datetime.now(UTC).date()
    new, _ = imported(tmp_path, capsys, models)
    code, result = run(capsys, "-p", new, "run")
    assert code == 0, result
    rows = {name: table(new, name)[1] for name in models}
    columns = {name: table(new, name)[0] for name in models}
    check_dates(rows, columns, {before, datetime.now(UTC).date()})  # the run may have passed midnight
    utils = [*OF_VALUES.values()]
    assert (columns["values_of_utils"][-1], rows["values_of_utils"]) == ("a_b", [(*utils,)])
    assert 340 < rows["far"][0][0] < 346
    assert sorted(rows["series"]) == [(number,) for number in range(1, 6)]
    assert (columns["pivoted"], sorted(rows["pivoted"])) == (["id", "as", "bs"], [(1, 2, 1), (2, 0, 1)])
    assert sorted(rows["first_visits"]) == [(1, 2, "y"), (2, 5, "z")]
    assert sorted(rows["counts"]) == [("first_visits", 2), ("visits", 4)]
    pairs = {name: {*PAIRS[name].items()} for name in "ab"}
    both, only_a, only_b = pairs["a"] & pairs["b"], pairs["a"] - pairs["b"], pairs["b"] - pairs["a"]
    counted = [(True, True, len(both)), (True, False, len(only_a)), (False, True, len(only_b))]
    total = sum(count for _, _, count in counted)
    assert {*rows["summary"]} == {(*row, round(100 * row[2] / total, 2)) for row in counted}
    assert {*rows["differences"]} == {(*r, True, False) for r in only_a} | {(*r, False, True) for r in only_b}
    assert {*rows["statuses"]} == {("v", s, len(keys), round(100 * len(keys) / 6, 2)) for s, keys in STATUSES}
    assert {row[0]: tuple(map(bool, row[2:])) for row in rows["verbose"]} == {
        1: (True, False, False, False, False, False),
        2: (False, False, False, False, False, True),
        3: (True, True, True, False, False, False),
        4: (False, True, False, False, False, True),
        5: (False, False, False, False, True, False),
        6: (False, False, False, True, False, False),
    }


def check_dates(rows, columns, days):
    assert {row[0]: row[1:] for row in rows["days"]} == {
        day: tuple(of_day(day) for of_day in OF_DAYS.values()) for day in DAYS
    }
    ((*of_today, there, at),) = rows["of_today"]
    assert any(of_today == [of_day(day) for of_day in OF_TODAY.values()] for day in days)
    assert there - at == timedelta(hours=9)
    assert columns["dimension"] == [*OF_DIMENSION]
    assert sorted(rows["dimension"]) == [
        tuple(of_day(day) for of_day in OF_DIMENSION.values())
        for day in (date(2023, 12, 20) + number * DAY for number in range(76))
    ]
    assert sorted(rows["base"]) == [(midnight(months_later(date(2024, 1, 31), number)),) for number in range(5)]
    assert any(sorted(rows["lately"]) == [(midnight(day + n * DAY),) for n in range(-3, 1)] for day in days)
    assert sorted(rows["weeks"]) == [(datetime(2024, 1, 1) + 7 * number * DAY,) for number in range(4)]
