-- rivet:description: The year's league table of carriers by punctuality, with how many months each one won.
-- rivet:owners: [flights@example.org]
SELECT
  rank() OVER (ORDER BY sum(ranks.on_time) / sum(ranks.flights) DESC) AS place,
  ranks.carrier,
  airlines.name AS airline,
  sum(ranks.flights) AS flights,
  round(100 * sum(ranks.on_time) / sum(ranks.flights), 2) AS on_time_pct,
  round(100 * sum(ranks.cancelled) / sum(ranks.flights), 2) AS cancelled_pct,
  round(sum(ranks.delay_minutes) / nullif(sum(ranks.arrivals), 0), 2) AS mean_arrival_delay,
  count_if(ranks.month_rank = 1) AS months_won,
  min(ranks.month_rank) AS best_month_rank,
  max(ranks.month_rank) AS worst_month_rank
FROM carrier_month_ranks AS ranks
LEFT JOIN airlines ON airlines.carrier = ranks.carrier
GROUP BY ranks.carrier, airlines.name
