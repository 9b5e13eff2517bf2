-- rivet:description: The year of each route - an origin and a destination - in whole numbers.
-- rivet:tags: [yearly]
SELECT
  origin,
  dest,
  min(distance) AS listed_miles,  -- two routes are listed with two distances, a mile apart
  count(*) AS flights,
  count_if(outcome = 'on_time') AS on_time,
  count_if(outcome = 'cancelled') AS cancelled,
  sum(greatest(arr_delay, 0)) AS late_minutes,
  median(air_time) AS usual_air_minutes
FROM flight_outcomes
GROUP BY origin, dest
