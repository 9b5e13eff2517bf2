-- rivet:description: What each carrier flew in each month, in whole numbers that add up.
-- rivet:tags: [monthly]
SELECT
  carrier,
  month,
  count(*) AS flights,
  count_if(outcome = 'on_time') AS on_time,
  count_if(outcome = 'cancelled') AS cancelled,
  count(arr_delay) AS arrivals,
  sum(arr_delay) AS delay_minutes
FROM flight_outcomes
GROUP BY carrier, month
