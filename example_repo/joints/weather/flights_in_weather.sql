-- rivet:description: Each flight with the weather at its airport in the hour of its scheduled departure.
SELECT
  flights.origin,
  coalesce(weather.condition, 'not_observed') AS condition,
  flights.outcome,
  flights.dep_delay
FROM flight_outcomes AS flights
LEFT JOIN weather_conditions AS weather
  ON weather.origin = flights.origin
  AND weather.time_hour = flights.time_hour
