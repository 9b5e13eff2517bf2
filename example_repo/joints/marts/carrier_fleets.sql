-- rivet:description: Age, size and make of each carrier's aircraft in the register, weighted by flights.
-- rivet:owners: [team:fleet]
-- rivet:assert: unique(carrier)
-- rivet:assert: expression(name=age_is_plausible, sql='mean_age BETWEEN 0 AND 60')
SELECT
  usage.carrier,
  airlines.name AS airline,
  sum(usage.flights) AS flights,
  -- the other columns describe only these identified flights
  round(
    100 * sum(CASE WHEN fleet.tailnum IS NOT NULL THEN usage.flights ELSE 0 END) / sum(usage.flights),
    2
  ) AS identified_pct,
  count(fleet.tailnum) AS aircraft,
  min(fleet.built) AS oldest_built,
  round(
    sum((2013 - fleet.built) * usage.flights)
    / nullif(sum(CASE WHEN fleet.built IS NOT NULL THEN usage.flights END), 0),
    2
  ) AS mean_age,
  round(
    sum(fleet.seats * usage.flights) / nullif(sum(CASE WHEN fleet.seats IS NOT NULL THEN usage.flights END), 0),
    1
  ) AS seats_a_flight,
  coalesce(sum(fleet.seats * usage.miles), 0) AS seat_miles,
  concat_ws(', ', sort_array(collect_set(fleet.manufacturer))) AS manufacturers
FROM aircraft_usage AS usage
LEFT JOIN fleet ON fleet.tailnum = usage.tailnum
LEFT JOIN airlines ON airlines.carrier = usage.carrier
GROUP BY usage.carrier, airlines.name
