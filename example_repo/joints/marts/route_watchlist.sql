-- rivet:description: The ten least punctual routes of each airport, among those with at least 200 flights.
-- rivet:owners: [flights@example.org]
-- rivet:assert: row_count(min=30, max=30)
-- rivet:assert: unique(origin, place)
WITH ranked AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY origin ORDER BY on_time / flights, dest) AS place
  FROM routes
  WHERE flights >= 200
)

SELECT
  origin,
  place,
  dest,
  flights,
  round(100 * on_time / flights, 2) AS on_time_pct,
  round(100 * cancelled / flights, 2) AS cancelled_pct,
  round(late_minutes / flights, 2) AS late_minutes_a_flight
FROM ranked
WHERE place <= 10
