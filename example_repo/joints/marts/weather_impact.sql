-- rivet:description: Points of punctuality that each kind of weather costs an airport, against its own fair weather.
-- rivet:owners: [team:weather]
SELECT
  origin,
  condition,
  flights,
  cancelled_pct,
  on_time_pct,
  mean_departure_delay,
  round(
    on_time_pct - max(CASE WHEN condition = 'fair' THEN on_time_pct END) OVER (PARTITION BY origin),
    2
  ) AS points_against_fair
FROM weather_totals
