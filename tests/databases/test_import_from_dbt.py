"""A dbt-postgres project, imported and run: its models have the rows that the database itself computes."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
import yaml
from support.databases import execute, rows
from support.dbt import write_dbt
from support.folders import PROFILES

from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError

MODELS = {
    "grouped": "select kind, count(*) as n, sum(whole) as s, avg(part) as mean, max(day) as last, count(distinct "
    "whole) filter (where part > 0) as d from {things} group by 1",
    "ordered": "select id, row_number() over (partition by kind order by part desc nulls last, id nulls last) as n, "
    "lag(whole, 1, 0) over (order by id nulls last) as before, sum(part) over (order by id nulls last rows between 1 "
    "preceding and current row) as s from {things}",
    "texts": "select id, upper(kind) || '-' || trim(note) as t, length(note) as l, replace(note, 'a', 'it''s') as r, "
    "substring(note from 1 for 2) as b, left(note, 3) as f, md5(note) as h, concat_ws('|', kind, note) as w, "
    "coalesce(note, '?') like '%a_' as is_like from {things}",
    "numbers": "select id, part / 3.0 as third, whole % 4 as rest, abs(part) as a, round(part, 1) as r, "
    "floor(part) as f, ceil(part) as c, cast(round(part) as int) as i, part::numeric(8, 1) as d, "
    "greatest(whole, 2, null) as g, whole * part as product, -part as negative, "
    "cast(part as real) > 1 as is_more from {things}",
    "times": "select id, extract(week from day) as w, extract(doy from day) as y, date_trunc('week', at) as t, "
    "day + interval '1 month' as next, day::date > date '2024-01-15' as late from {things}",
    "conditions": "select id, case when part is null then 'none' when part between 0 and 2 then 'few' else 'many' end "
    "as how, nullif(whole, 3) as n, kind is distinct from 'b' as other, whole in (1, 2) or not part > 1 as u "
    "from {things} where kind not in ('c') or kind is null",
    "joined": "with a as (select id, kind from {things}), b as (select kind, max(id) as top from a group by kind "
    "having count(*) > 1) select a.id, b.top, exists (select 1 from a c where c.id = a.id + 1) as has_next "
    "from a left join b using (kind) union all select 0 as id, (select min(whole) from {things}) as top, "
    "true as has_next",
    "limited": "select id, part from {things} order by part desc nulls last, id nulls last limit 3 offset 1",
}
"""Queries whose parts are alike in PostgreSQL and Spark."""

OF_MART = {"limited": ", schema='mart'"}
"""Further configuration of models that are in another schema."""

THINGS = """
(1, 'a', 7, 1.25, 'banana ', '2024-01-31', '2024-01-31 23:30:00+00'),
(2, 'a', -7, -2.75, ' an', '2024-02-29', '2024-02-29 00:00:00.123456+05'),
(3, 'b', 3, NULL, '', '2023-12-31', '2023-12-31 12:00:00+00'),
(4, 'b', NULL, 0.5, NULL, NULL, NULL),
(5, NULL, 2147483647, 99999.99, 'äöü a', '2024-01-01', '2024-01-01 00:00:00+00'),
(6, 'c', 0, 2.5, 'x', '2024-12-30', '2024-12-30 00:00:00+00')
"""


@pytest.fixture(scope="module")
def database(postgres):
    found = postgres.database()
    columns = 'id integer, kind text, whole integer, part numeric(10, 2), note text, day date, "at" timestamptz'
    execute(
        found, "CREATE SCHEMA raw", f"CREATE TABLE raw.things ({columns})", f"INSERT INTO raw.things VALUES {THINGS}"
    )
    return found


def comparable(value):
    """Return a value so that those that Spark has by another type are the same: numbers, and dates as times."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | float | Decimal):
        return f"{float(value):.5f}"
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).isoformat() if value.tzinfo else value.isoformat() + "+00:00"
    return f"{value}T00:00:00+00:00" if isinstance(value, datetime.date) else value


@pytest.mark.nightly
def test_models_have_the_rows_of_the_database(database, project, tmp_path, monkeypatch):
    """In the tables where dbt has them, of which it has made one before."""
    of_dbt = MODELS["conditions"].format(things="raw.things")
    execute(database, "CREATE SCHEMA main", f"CREATE TABLE main.conditions AS {of_dbt} LIMIT 1")
    files = {
        f"models/{name}.sql": f"{{{{ config(materialized='table'{OF_MART.get(name, '')}) }}}}\n"
        + query.format(things="{{ source('raw', 'things') }}")
        for name, query in MODELS.items()
    }
    output = {"type": "postgres", "host": "127.0.0.1", "port": database.port, "user": database.user}
    output |= {"password": "{{ env_var('DB_PASSWORD') }}", "dbname": database.name, "schema": "main", "threads": 2}
    files["profiles.yml"] = yaml.safe_dump({"shop": {"target": "dev", "outputs": {"dev": output}}})
    files["models/s.yml"] = "sources: [{name: raw, tables: [{name: things}]}]"
    old, new = write_dbt(tmp_path / "old", files), tmp_path / "new"
    assert main(["import", "dbt", str(old), "--to", str(new)]) == 0
    monkeypatch.setenv("DB_PASSWORD", database.password)
    imported = {str(path.relative_to(new)): path.read_text() for path in new.rglob("*.*") if path.suffix != ".py"}
    written = yaml.safe_load(imported.pop("profiles.yaml"))["default"]
    engine = {**PROFILES["default"]["engines"][0], "catalogs": written["engines"][0]["catalogs"]}
    # Both truncate a time in the time zone of the session.
    engine["config"] = {**engine["config"], "spark.sql.session.timeZone": "UTC"}
    folder = project({**imported, "profiles.yaml": {"default": {"catalogs": written["catalogs"], "engines": [engine]}}})
    with pytest.raises(RivetError, match='schema "main_mart" does not exist'):
        folder.run("limited")
    execute(database, "CREATE SCHEMA main_mart")
    with pytest.raises(RivetError, match="rivet-dagster adopt"):
        folder.run("conditions")
    assert main(["adopt", "conditions", "-p", str(folder.root)]) == 0
    folder.run_all()
    for name, query in MODELS.items():
        expected = rows(database, query.format(things="raw.things"))
        table = f"main_mart.{name}" if name in OF_MART else f"main.{name}"
        found = [tuple(map(comparable, row)) for row in rows(database, f"SELECT * FROM {table}")]
        assert sorted(found) == sorted(tuple(map(comparable, row)) for row in expected), name
