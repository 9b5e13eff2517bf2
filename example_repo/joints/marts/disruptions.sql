-- rivet:description: Runs of consecutive disrupted days, with what they cost and the weather they had.
-- rivet:owners: [flights@example.org]
-- rivet:assert: unique(first_day)
-- rivet:assert: expression(name=days_are_consecutive, sql='datediff(last_day, first_day) + 1 = days')
SELECT
  min(days.flight_date) AS first_day,
  max(days.flight_date) AS last_day,
  count(*) AS days,
  sum(days.flights) AS flights,
  sum(days.cancelled) AS cancelled,
  round(100 * sum(days.cancelled) / sum(days.flights), 2) AS cancelled_pct,
  sum(weather.snow_hours) AS snow_hours,
  sum(weather.rain_hours) AS rain_hours,
  sum(weather.fog_hours) AS fog_hours
FROM disrupted_days AS days
LEFT JOIN daily_weather AS weather ON weather.observed_on = days.flight_date
GROUP BY days.episode
