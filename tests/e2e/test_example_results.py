"""Every published table of the example, computed a second time by DuckDB from the raw CSV files.

The queries here follow from the questions, not from the joints: ratios are compared by cross multiplication,
numbers rounded in integer arithmetic, ranks counted, runs of days found by gaps, distances computed by chords.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TABLES = ("airlines", "airports", "flights", "planes", "weather")

SETUP = """
-- num / den, half away from zero, without a floating point number before the last division
CREATE MACRO half_up(num, den, digits) AS
    sign(num) * ((2 * abs(num)::HUGEINT * (10 ** digits)::HUGEINT + den) // (2 * den)) / 10 ** digits;
CREATE MACRO percent(part, whole) AS half_up(100 * part, whole, 2);

CREATE TABLE legs AS
SELECT
    make_date(year, month, day) AS flown_on,
    dep_time IS NULL AS cancelled,
    coalesce(arr_delay < 15, false) AS punctual,  -- no arrival delay: cancelled or diverted
    greatest(arr_delay, 0) AS minutes_late,
    *
FROM flights;
"""


@pytest.fixture(scope="module")
def raw(example_run) -> Iterator[duckdb.DuckDBPyConnection]:
    """Load the five CSV files as tables, and `legs`: flights with the facts that most questions need."""
    with duckdb.connect() as connection:
        for table in TABLES:
            path = example_run.project / "data" / f"{table}.csv"
            connection.execute(
                f"CREATE TABLE {table} AS FROM read_csv('{path}', header = true, nullstr = 'NA', sample_size = -1)"
            )
        connection.execute(SETUP)
        yield connection


def assert_same(example_run, table: str, expected: pa.Table) -> None:
    """Assert that the published table has these columns and, in any order, these rows."""
    published = pq.read_table(example_run.project / "warehouse" / table)
    assert published.column_names == expected.column_names
    actual_rows, expected_rows = _rows(published), _rows(expected)
    assert len(actual_rows) == len(expected_rows) > 0
    different = [pair for pair in zip(actual_rows, expected_rows, strict=True) if not _close(*pair)]
    assert not different, f"{len(different)} rows differ, the first (published, expected): {different[0]}"


def _rows(table: pa.Table) -> list[tuple]:
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    return sorted(zip(*columns, strict=True), key=lambda row: [_sortable(value) for value in row])


def _plain(value: object) -> object:
    """Convert numbers of every type to float; the largest here are far below 2**53."""
    return float(value) if isinstance(value, int | Decimal) else value


def _sortable(value: object) -> tuple[bool, str]:
    return value is None, f"{value:.6g}" if isinstance(value, float) else str(value)


def _close(left: tuple, right: tuple) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(left, right, strict=True)
    )


def test_carrier_punctuality(example_run, raw):
    expected = raw.sql("""
        WITH year AS (
            SELECT carrier, count(*) AS n, count(*) FILTER (punctual) AS good, count(*) FILTER (cancelled) AS lost,
                sum(arr_delay)::BIGINT AS minutes, count(arr_delay) AS landed
            FROM legs GROUP BY ALL
        ), big_months AS (
            SELECT carrier, month, count(*) AS n, count(*) FILTER (punctual) AS good
            FROM legs GROUP BY ALL HAVING count(*) >= 100
        ), placed AS (
            SELECT mine.carrier, mine.month,
                1 + (SELECT count(*) FROM big_months AS other
                     WHERE other.month = mine.month AND other.good * mine.n > mine.good * other.n) AS place
            FROM big_months AS mine
        )
        SELECT
            1 + (SELECT count(*) FROM year AS other WHERE other.good * year.n > year.good * other.n) AS place,
            carrier,
            (SELECT name FROM airlines WHERE airlines.carrier = year.carrier) AS airline,
            n AS flights,
            percent(good, n) AS on_time_pct,
            percent(lost, n) AS cancelled_pct,
            half_up(minutes, landed, 2) AS mean_arrival_delay,
            (SELECT count(*) FROM placed WHERE placed.carrier = year.carrier AND place = 1) AS months_won,
            (SELECT min(place) FROM placed WHERE placed.carrier = year.carrier) AS best_month_rank,
            (SELECT max(place) FROM placed WHERE placed.carrier = year.carrier) AS worst_month_rank
        FROM year
    """)
    assert_same(example_run, "carrier_punctuality", expected.to_arrow_table())


def test_carrier_fleets(example_run, raw):
    expected = raw.sql("""
        WITH flown AS (
            SELECT legs.carrier, legs.distance, planes.*,
                CASE split_part(manufacturer, ' ', 1)
                    WHEN 'AIRBUS' THEN 'Airbus' WHEN 'BOEING' THEN 'Boeing' WHEN 'EMBRAER' THEN 'Embraer'
                    WHEN 'BOMBARDIER' THEN 'Bombardier' WHEN 'CANADAIR' THEN 'Bombardier'
                    WHEN 'MCDONNELL' THEN 'McDonnell Douglas' WHEN 'DOUGLAS' THEN 'McDonnell Douglas'
                    ELSE 'other'
                END AS make
            FROM legs LEFT JOIN planes USING (tailnum)
            WHERE NOT cancelled
        )
        SELECT
            carrier,
            any_value(airlines.name) AS airline,
            count(*) AS flights,
            percent(count(flown.tailnum), count(*)) AS identified_pct,
            count(DISTINCT flown.tailnum) AS aircraft,
            min(flown.year) AS oldest_built,
            half_up(sum(2013 - flown.year), nullif(count(flown.year), 0), 2) AS mean_age,
            half_up(sum(seats), nullif(count(seats), 0), 1) AS seats_a_flight,
            coalesce(sum(seats * distance), 0)::BIGINT AS seat_miles,
            coalesce(string_agg(DISTINCT make, ', ' ORDER BY make) FILTER (flown.tailnum IS NOT NULL), '')
                AS manufacturers
        FROM flown LEFT JOIN airlines USING (carrier)
        GROUP BY carrier
    """)
    assert_same(example_run, "carrier_fleets", expected.to_arrow_table())


def test_airport_hours(example_run, raw):
    expected = raw.sql("""
        WITH hours AS (
            SELECT origin, sched_dep_time // 100 AS hour, count(*) AS n, count(DISTINCT dest) AS destinations,
                count(*) FILTER (punctual) AS good, sum(dep_delay)::BIGINT AS minutes, count(dep_delay) AS left_gate
            FROM legs GROUP BY ALL
        )
        SELECT
            origin,
            hour AS sched_hour,
            n AS flights,
            destinations,
            1 + (SELECT count(*) FROM hours AS o WHERE o.origin = hours.origin AND o.n > hours.n) AS busiest_rank,
            percent(
                (SELECT sum(o.n)::BIGINT FROM hours AS o WHERE o.origin = hours.origin AND o.hour <= hours.hour),
                (SELECT count(*) FROM legs WHERE legs.origin = hours.origin)
            ) AS scheduled_by_then_pct,
            percent(good, n) AS on_time_pct,
            half_up(minutes, nullif(left_gate, 0), 2) AS mean_departure_delay
        FROM hours
    """)
    assert_same(example_run, "airport_hours", expected.to_arrow_table())


def test_weather_impact(example_run, raw):
    expected = raw.sql("""
        WITH sky AS (
            SELECT origin, time_hour,
                if(precip > 0,
                   if(temp <= 34, 'snow_or_ice', if(precip >= 0.1, 'heavy_rain', 'rain')),
                   if(visib < 3, 'low_visibility', if(wind_speed >= 20, 'windy', 'fair'))) AS condition
            FROM weather WHERE coalesce(wind_speed, 0) < 200
        ), sums AS (
            SELECT origin, coalesce(condition, 'not_observed') AS condition, count(*) AS n,
                count(*) FILTER (punctual) AS good, count(*) FILTER (cancelled) AS lost,
                sum(dep_delay)::BIGINT AS minutes, count(dep_delay) AS left_gate
            FROM legs LEFT JOIN sky USING (origin, time_hour) GROUP BY ALL
        )
        SELECT
            sums.origin,
            sums.condition,
            sums.n AS flights,
            percent(sums.lost, sums.n) AS cancelled_pct,
            percent(sums.good, sums.n) AS on_time_pct,
            half_up(sums.minutes, sums.left_gate, 2) AS mean_departure_delay,
            (round(100 * percent(sums.good, sums.n)) - round(100 * percent(fair.good, fair.n))) / 100
                AS points_against_fair
        FROM sums JOIN sums AS fair ON fair.origin = sums.origin AND fair.condition = 'fair'
    """)
    assert_same(example_run, "weather_impact", expected.to_arrow_table())


def test_disruptions(example_run, raw):
    expected = raw.sql("""
        WITH bad AS (
            SELECT flown_on, count(*) AS n, count(*) FILTER (cancelled) AS lost
            FROM legs GROUP BY ALL HAVING lost >= 0.05 * n
        ), numbered AS (
            SELECT *, sum(starts) OVER (ORDER BY flown_on) AS episode
            FROM (SELECT *, if(flown_on - lag(flown_on) OVER (ORDER BY flown_on) = 1, 0, 1) AS starts FROM bad)
        ), sky AS (
            SELECT make_date(year, month, day) AS flown_on,
                count(*) FILTER (precip > 0 AND temp <= 34) AS snow,
                count(*) FILTER (precip > 0 AND NOT coalesce(temp <= 34, false)) AS rain,
                count(*) FILTER (coalesce(precip, 0) = 0 AND visib < 3) AS fog
            FROM weather WHERE coalesce(wind_speed, 0) < 200 GROUP BY ALL
        )
        SELECT
            min(flown_on) AS first_day,
            max(flown_on) AS last_day,
            count(*) AS days,
            sum(n)::BIGINT AS flights,
            sum(lost)::BIGINT AS cancelled,
            percent(sum(lost), sum(n)::BIGINT) AS cancelled_pct,
            sum(snow)::BIGINT AS snow_hours,
            sum(rain)::BIGINT AS rain_hours,
            sum(fog)::BIGINT AS fog_hours
        FROM numbered LEFT JOIN sky USING (flown_on)
        GROUP BY episode
    """)
    assert_same(example_run, "disruptions", expected.to_arrow_table())


def test_route_map(example_run, raw):
    expected = raw.sql("""
        WITH points AS (
            SELECT *, cos(radians(lat)) * cos(radians(lon)) AS x, cos(radians(lat)) * sin(radians(lon)) AS y,
                sin(radians(lat)) AS z
            FROM airports
        ), pairs AS (
            SELECT origin, dest, count(*) AS n, min(distance) AS miles, (2 * median(air_time))::BIGINT AS half_minutes
            FROM legs GROUP BY ALL
        ), arcs AS (
            SELECT pairs.*, b.name, a.lat AS lat1, a.lon AS lon1, b.lat AS lat2, b.lon AS lon2,
                2 * 3958.8 * asin(sqrt((a.x - b.x) ** 2 + (a.y - b.y) ** 2 + (a.z - b.z) ** 2) / 2) AS arc
            FROM pairs, points AS a LEFT JOIN points AS b ON b.faa = pairs.dest
            WHERE a.faa = pairs.origin
        )
        SELECT
            origin,
            dest,
            replace(name, chr(92), '') AS dest_name,
            lat1 AS origin_lat,
            lon1 AS origin_lon,
            lat2 AS dest_lat,
            lon2 AS dest_lon,
            n AS flights,
            miles AS listed_miles,
            round(arc, 1) AS great_circle_miles,
            round(miles - arc, 1) AS detour_miles,
            half_up(120 * miles, half_minutes, 1) AS usual_mph
        FROM arcs
    """)
    assert_same(example_run, "route_map", expected.to_arrow_table())


def test_route_watchlist(example_run, raw):
    expected = raw.sql("""
        WITH pairs AS (
            SELECT origin, dest, count(*) AS n, count(*) FILTER (punctual) AS good, count(*) FILTER (cancelled) AS lost,
                sum(minutes_late)::BIGINT AS minutes
            FROM legs GROUP BY ALL HAVING n >= 200
        ), placed AS (
            SELECT *, 1 + (
                SELECT count(*) FROM pairs AS o
                WHERE o.origin = pairs.origin
                    AND (o.good * pairs.n - pairs.good * o.n, o.dest) < (0, pairs.dest)
            ) AS place
            FROM pairs
        )
        SELECT origin, place, dest, n AS flights, percent(good, n) AS on_time_pct, percent(lost, n) AS cancelled_pct,
            half_up(minutes, n, 2) AS late_minutes_a_flight
        FROM placed WHERE place <= 10
    """)
    assert_same(example_run, "route_watchlist", expected.to_arrow_table())


def test_route_bad_days(example_run, raw):
    expected = raw.sql("""
        WITH days AS (
            SELECT origin, dest, flown_on, count(*) AS n, sum(minutes_late)::BIGINT AS minutes
            FROM legs WHERE arr_delay IS NOT NULL GROUP BY ALL
        ), usual AS (
            SELECT origin, dest, median(minutes) AS middle, mad(minutes) AS spread
            FROM days GROUP BY ALL HAVING count(*) >= 200 AND median(n) >= 5
        )
        SELECT origin, dest, flown_on AS flight_date, n AS arrivals, minutes AS late_minutes,
            middle AS usual_late_minutes, (minutes - middle) / spread AS deviations
        FROM days JOIN usual USING (origin, dest)
        WHERE spread > 0 AND minutes - middle >= 10 * spread
    """)
    assert_same(example_run, "route_bad_days", expected.to_arrow_table())


def test_reference_gaps(example_run, raw):
    expected = raw.sql("""
        SELECT if(column_name = 'dest', 'airports', 'planes') AS missing_from, code, count(*) AS flights,
            min(flown_on) AS first_seen, max(flown_on) AS last_seen
        FROM (UNPIVOT (FROM legs SELECT flown_on, dest, tailnum) ON dest, tailnum INTO NAME column_name VALUE code)
        WHERE NOT (column_name = 'dest' AND code IN (SELECT faa FROM airports))
            AND NOT (column_name = 'tailnum' AND code IN (SELECT tailnum FROM planes))
        GROUP BY ALL
    """)
    assert_same(example_run, "reference_gaps", expected.to_arrow_table())
