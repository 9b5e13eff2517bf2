-- rivet:description: What happened to the flights of each airport in each kind of weather.
SELECT
  origin,
  condition,
  count(*) AS flights,
  round(100 * count_if(outcome = 'cancelled') / count(*), 2) AS cancelled_pct,
  round(100 * count_if(outcome = 'on_time') / count(*), 2) AS on_time_pct,
  round(avg(dep_delay), 2) AS mean_departure_delay
FROM flights_in_weather
GROUP BY origin, condition
