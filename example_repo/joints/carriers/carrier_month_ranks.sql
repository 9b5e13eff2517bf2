-- rivet:description: Rank of each carrier in each month by its share of flights on time, with at least 100 flights.
-- rivet:tags: [monthly]
SELECT
  carrier,
  month,
  flights,
  on_time,
  cancelled,
  arrivals,
  delay_minutes,
  CASE
    WHEN flights >= 100
    THEN rank() OVER (PARTITION BY month, flights >= 100 ORDER BY on_time / flights DESC)
  END AS month_rank
FROM carrier_months
