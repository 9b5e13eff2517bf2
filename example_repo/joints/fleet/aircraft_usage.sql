-- rivet:description: How often and how far each carrier flew each aircraft.
SELECT
  carrier,
  tailnum,
  count(*) AS flights,
  sum(distance) AS miles
FROM flight_outcomes
WHERE outcome <> 'cancelled'
GROUP BY carrier, tailnum
