-- rivet:description: How each flight ended. On time is less than 15 minutes late at the gate, as the DOT counts.
-- rivet:owners: [team:flight-data, flights@example.org]
-- rivet:tags: [staging, core]
-- rivet:assert: not_null(flight_id, flight_date, carrier, origin, dest)
-- rivet:assert: unique(flight_id)
-- rivet:assert: unique(flight_date, carrier, flight, origin)
-- rivet:assert: row_count(min=300000, max=400000)
-- rivet:assert: accepted_values(column=origin, values=[EWR, JFK, LGA])
-- rivet:assert: accepted_values(column=outcome, values=[on_time, late, diverted, cancelled])
-- rivet:assert: expression(sql='distance > 0', name=distance_is_positive)
-- rivet:assert: expression(sql="air_time IS NULL OR outcome IN ('on_time', 'late')", name=only_arrivals_have_air_time)
SELECT
  flight_id,
  flight_date,
  month,
  sched_hour,
  time_hour,
  carrier,
  flight,
  tailnum,
  origin,
  dest,
  distance,
  dep_delay,
  arr_delay,
  air_time,
  CASE
    WHEN dep_time IS NULL THEN 'cancelled'
    WHEN arr_delay IS NULL THEN 'diverted'  -- it left, and did not arrive at its destination
    WHEN arr_delay < 15 THEN 'on_time'
    ELSE 'late'
  END AS outcome
FROM flight_schedule
