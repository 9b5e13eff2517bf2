-- rivet:description: How busy and punctual each hour at an airport is, and the share of flights scheduled by then.
-- rivet:owners: [team:flight-data]
-- rivet:assert: unique(origin, sched_hour)
-- rivet:assert: accepted_values(column=origin, values=[EWR, JFK, LGA])
-- rivet:assert: expression(name=hour_is_an_hour, sql='sched_hour BETWEEN 0 AND 23')
SELECT
  origin,
  sched_hour,
  flights,
  destinations,
  rank() OVER (PARTITION BY origin ORDER BY flights DESC) AS busiest_rank,
  round(
    100 * sum(flights) OVER (PARTITION BY origin ORDER BY sched_hour ROWS UNBOUNDED PRECEDING)
    / sum(flights) OVER (PARTITION BY origin),
    2
  ) AS scheduled_by_then_pct,
  round(100 * on_time / flights, 2) AS on_time_pct,
  mean_departure_delay
FROM hourly_departures
