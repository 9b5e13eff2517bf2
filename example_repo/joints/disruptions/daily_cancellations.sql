-- rivet:description: Flights scheduled and cancelled on each day.
-- rivet:tags: [daily]
SELECT
  flight_date,
  count(*) AS flights,
  count_if(outcome = 'cancelled') AS cancelled
FROM flight_outcomes
GROUP BY flight_date
