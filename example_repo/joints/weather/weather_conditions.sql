-- rivet:description: The weather at an airport in an hour as one word, the first that applies, from worst to best.
-- rivet:owners: [team:weather]
-- rivet:tags: [staging]
-- rivet:assert: unique(origin, time_hour)
-- rivet:assert: not_null(condition)
SELECT
  origin,
  time_hour,
  observed_on,
  CASE
    WHEN precip > 0 AND temp <= 34 THEN 'snow_or_ice'
    WHEN precip >= 0.1 THEN 'heavy_rain'
    WHEN precip > 0 THEN 'rain'
    WHEN visib < 3 THEN 'low_visibility'
    WHEN wind_speed >= 20 THEN 'windy'
    ELSE 'fair'
  END AS condition
FROM weather
