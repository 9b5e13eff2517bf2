-- rivet:description: Departures of each airport by scheduled hour.
SELECT
  origin,
  sched_hour,
  count(*) AS flights,
  count(DISTINCT dest) AS destinations,
  count_if(outcome = 'on_time') AS on_time,
  round(avg(dep_delay), 2) AS mean_departure_delay
FROM flight_outcomes
GROUP BY origin, sched_hour
