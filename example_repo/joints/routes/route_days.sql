-- rivet:description: The minutes of arrival delay that each route collected on each day it was flown.
-- rivet:tags: [daily]
SELECT
  origin,
  dest,
  flight_date,
  count(*) AS arrivals,
  sum(greatest(arr_delay, 0)) AS late_minutes
FROM flight_outcomes
WHERE arr_delay IS NOT NULL
GROUP BY origin, dest, flight_date
