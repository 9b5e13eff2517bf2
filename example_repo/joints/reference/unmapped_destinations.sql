-- rivet:description: Destinations that are missing from the table of airports.
-- rivet:tags: [data_quality]
SELECT
  'airports' AS missing_from,
  flights.dest AS code,
  count(*) AS flights,
  min(flights.flight_date) AS first_seen,
  max(flights.flight_date) AS last_seen
FROM flight_outcomes AS flights
LEFT ANTI JOIN airports ON airports.faa = flights.dest
GROUP BY flights.dest
