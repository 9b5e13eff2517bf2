"""Macros and generic tests of packages, as they are built in: imported, run on Spark, and compared with Python."""

import json
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent.parent / "dbt"))
from package_cases import CASES, TABLES, declared_cases, name_of_case, query, random_rows
from package_macros import (
    DAY,
    DAYS,
    OF_DAYS,
    OF_DIMENSION,
    OF_TODAY,
    OF_VALUES,
    PAIRS,
    STATUSES,
    fiscal_dates,
    fiscal_periods,
    midnight,
    models_of_macros,
    months_later,
)

from rivet_dagster.cli.main import main

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
    new, _ = imported(tmp_path, capsys, models, {"models": declared_cases()})
    _, result = run(capsys, "-p", new, "run")
    found = {check["check"]: check for check in result["checks"]}
    assert len(found) == len(CASES) * len(TABLES)
    wrong = []
    for number in TABLES:
        rows, others = random_rows(number), random_rows(7)
        for index, (name, case) in enumerate(CASES):
            check, expected = found[name_of_case(index, number)], case.holds(rows, others)
            if check["passed"] is not expected or check.get("error"):
                wrong.append((name, case.arguments, number, check, expected))
    assert wrong == []


def table(folder, name):
    """Return the columns and the rows of a table."""
    stored = duckdb.sql(f"select * from read_parquet('{(folder / 'warehouse' / name).resolve()}/*.parquet')")
    return stored.columns, [tuple(map(plain, row)) for row in stored.fetchall()]


def plain(value):
    """Return a time in UTC without its zone, and a decimal as the nearest double."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.nightly
def test_macros(tmp_path, capsys):
    models = models_of_macros()
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
    assert rows["slugs"] == [(1, 2)]
    assert columns["slugs"] == ["a_b", "_1_a"]
    assert {*rows["columns_that_differ"]} == {("k", False), ("v", True)}
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
    assert sorted(rows["months"]) == [(midnight(months_later(date(2024, 1, 31), number)),) for number in range(5)]
    assert sorted(rows["fiscal_years"]) == [*fiscal_dates(1, 1, 1)]
    assert sorted(rows["fiscal_periods"]) == [*fiscal_periods(12, 2, 0)]
    assert 53 in {row[6] for row in rows["fiscal_years"]} & {row[4] for row in rows["fiscal_periods"]}
    assert sorted(rows["weeks"]) == [(datetime(2024, 1, 1) + 7 * number * DAY,) for number in range(4)]
