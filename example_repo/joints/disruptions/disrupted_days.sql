-- rivet:description: Days with at least one flight in twenty cancelled. Consecutive ones share an episode.
-- rivet:tags: [daily]
SELECT
  flight_date,
  flights,
  cancelled,
  -- day minus position is constant within an unbroken run of days
  date_sub(flight_date, row_number() OVER (ORDER BY flight_date)) AS episode
FROM daily_cancellations
WHERE 20 * cancelled >= flights
