-- rivet:description: Hours of bad weather of each day, over the three airports.
-- rivet:tags: [daily]
SELECT
  observed_on,
  count_if(condition = 'snow_or_ice') AS snow_hours,
  count_if(condition IN ('heavy_rain', 'rain')) AS rain_hours,
  count_if(condition = 'low_visibility') AS fog_hours
FROM weather_conditions
GROUP BY observed_on
